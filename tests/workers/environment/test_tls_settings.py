"""Settings of TLS that cannot be meant."""

from pathlib import Path

import pytest

from workers.environment.settings import SettingsError, load_settings
from workers.environment.tls_identity import TlsUnusable, certificates_in, tls_identity


@pytest.mark.parametrize("name", ["tls_cert_file", "tls_key_file"])
def test_a_certificate_and_its_key_are_named_together(name: str):
    with pytest.raises(SettingsError, match="tls_half_stated"):
        load_settings(**{name: "some.pem"})


def test_loopback_stays_in_the_clear_unless_a_certificate_is_named():
    assert tls_identity(load_settings()) is None


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.1,", "10.0.0.1/8"])
def test_who_is_trusted_to_say_who_asks_is_an_address_or_a_network(proxies: str):
    with pytest.raises(SettingsError, match="trusted_proxies_invalid"):
        load_settings(trusted_proxies=proxies)


def test_a_file_without_certificates_makes_no_tee_known(tmp_path: Path):
    file = tmp_path / "ca.pem"
    with pytest.raises(TlsUnusable):
        certificates_in(file)
    file.write_text("nothing")
    with pytest.raises(TlsUnusable):
        certificates_in(file)
