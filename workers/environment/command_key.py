"""Signs through a program with a private key that lies elsewhere, in a KMS or a token.

A line of a key file names it: the public half, a space, and the program with its arguments. The
program reads the message from its standard input and writes the signature, as raw bytes, to its
standard output. Which message that is, is made here (decision workers/0203).
"""

import shlex
import subprocess
from dataclasses import dataclass
from typing import Self

from kernel.proof.signing_keys import NoteVerifier, SigningKeyUnavailable
from kernel.proof.verification import ProofInvalid

SIGNED_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class CommandKey:
    """The public half of a key, and the program that signs with the private one."""

    verifier: NoteVerifier
    command: tuple[str, ...]

    @property
    def line(self) -> str:
        """The key as one line of a key file."""
        return f"{self.verifier.vkey} {shlex.join(self.command)}"

    @classmethod
    def of_line(cls, text: str) -> Self:
        """Read a key from its line.

        Raises:
            ProofInvalid: it is none.
        """
        vkey, _, command = text.partition(" ")
        return cls.of_command(NoteVerifier.of_vkey(vkey), command)

    @classmethod
    def of_command(cls, verifier: NoteVerifier, command: str) -> Self:
        """Name the program of a key, as a shell would be given it; no shell reads it.

        Raises:
            ProofInvalid: it names none.
        """
        try:
            arguments = tuple(shlex.split(command))
        except ValueError:
            arguments = ()
        if not arguments or "\n" in command:
            raise ProofInvalid("a key names the program that signs with it")
        return cls(verifier, arguments)

    def signature(self, message: bytes) -> bytes:
        """Return the signature of the program, once it has been verified.

        Raises:
            SigningKeyUnavailable: the program cannot be run, fails, takes longer than
                `SIGNED_S_MAX`, or answers with something else than a signature of this key.
        """
        name = self.verifier.name
        try:
            ended = subprocess.run(
                self.command,
                input=message,
                capture_output=True,
                timeout=SIGNED_S_MAX,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            message_text = f"{self.command[0]} does not sign for {name}: {type(error).__name__}"
            raise SigningKeyUnavailable(message_text) from error
        if ended.returncode != 0:
            raise SigningKeyUnavailable(
                f"{self.command[0]} does not sign for {name}: it ended with {ended.returncode}"
            )
        try:
            self.verifier.check(ended.stdout, message)
        except ProofInvalid:
            raise SigningKeyUnavailable(
                f"{self.command[0]} answers with no signature of {name}"
            ) from None
        return ended.stdout
