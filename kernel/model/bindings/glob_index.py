"""Matches a path against many globs at once, at the cost of those that its beginning fits.

The globs are one trie, so that what they have in common is walked once. Its edges are a literal
segment, `**`, or, between an opening and a closing edge, the characters and wildcards of a segment
that has some. A path walks the trie as a nondeterministic automaton: a set of nodes, at most each
node of the trie once, moves on with each segment, and inside of segments with wildcards with each
character. No set is ever turned into a state of its own, so the trie is as large as its globs.
"""

from collections.abc import Iterable

from kernel.model.bindings.globs import Glob, Segment, Wildcard

_OPEN, _CLOSE = object(), object()
"""The edges around the characters of a segment that has wildcards."""

_Edge = object


class _Node:
    """A place in the trie; most have one edge or none."""

    __slots__ = ("edges", "keys", "loops")

    def __init__(self, *, loops: bool) -> None:
        self.loops = loops
        """Whether a walk stays here as well: behind `*` with any character, behind `**` segment."""

        self.edges: dict[_Edge, _Node] = {}
        self.keys: dict[str, None] | None = None
        """The keys whose glob ends here."""


class GlobIndex:
    """Globs, each under the keys that asked for it."""

    def __init__(self) -> None:
        self._root = _Node(loops=False)

    def __bool__(self) -> bool:
        """Tell whether it holds a glob."""
        return bool(self._root.edges)

    def add(self, glob: Glob, key: str) -> None:
        """Put a key under a glob."""
        node = self._root
        for edge in _edges_of(glob.segments):
            following = node.edges.get(edge)
            if following is None:
                following = node.edges[edge] = _Node(
                    loops=edge is Wildcard.RUN or edge is Wildcard.DEEP
                )
            node = following
        if node.keys is None:
            node.keys = {}
        node.keys[key] = None

    def discard(self, glob: Glob, key: str) -> None:
        """Take a key away from its glob, and with the last key of a glob its part of the trie."""
        node, walked = self._root, list[tuple[_Node, _Edge]]()
        for edge in _edges_of(glob.segments):
            if edge not in node.edges:
                return
            walked.append((node, edge))
            node = node.edges[edge]
        if node.keys is not None:
            node.keys.pop(key, None)
            node.keys = node.keys or None
        while walked and node.keys is None and not node.edges:
            node, edge = walked.pop()
            del node.edges[edge]

    def match(self, path: str) -> Iterable[str]:
        """Return the keys whose glob the whole path matches, some more than once."""
        reached = dict[_Node, None]()
        _reach(reached, self._root, Wildcard.DEEP)
        for segment in path.split("/"):
            before, reached = reached, {}
            for node in before:
                if node.loops:
                    reached[node] = None
                following = node.edges.get(segment)
                if following is not None:
                    _reach(reached, following, Wildcard.DEEP)
                opened = node.edges.get(_OPEN)
                if opened is not None:
                    _walk(opened, segment, reached)
            if not reached:
                return ()
        return [key for node in reached if node.keys is not None for key in node.keys]


def _edges_of(segments: tuple[Segment, ...]) -> Iterable[_Edge]:
    for segment in segments:
        if isinstance(segment, tuple):
            yield _OPEN
            yield from segment
            yield _CLOSE
        else:
            yield segment


def _reach(reached: dict[_Node, None], node: _Node, wildcard: Wildcard) -> None:
    """Add a node, and the one behind a wildcard that stands for nothing."""
    reached[node] = None
    behind = node.edges.get(wildcard)
    if behind is not None:
        reached[behind] = None


def _walk(opened: _Node, segment: str, reached: dict[_Node, None]) -> None:
    """Add the nodes to which a segment leads through characters and wildcards."""
    nodes = dict[_Node, None]()
    _reach(nodes, opened, Wildcard.RUN)
    for character in segment:
        before, nodes = nodes, {}
        for node in before:
            if node.loops:
                nodes[node] = None
            for edge in (character, Wildcard.ONE):
                following = node.edges.get(edge)
                if following is not None:
                    _reach(nodes, following, Wildcard.RUN)
        if not nodes:
            return
    for node in nodes:
        closed = node.edges.get(_CLOSE)
        if closed is not None:
            _reach(reached, closed, Wildcard.DEEP)
