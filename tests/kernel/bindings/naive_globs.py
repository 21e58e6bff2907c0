"""The grammar of globs read word by word, at any cost: what the matcher is held against."""


def naive_match(glob: str, path: str) -> bool:
    return segments_match(glob.split("/"), path.split("/"))


def segments_match(globs, segments):
    if not globs:
        return not segments
    if globs[0] == "**":
        return any(segments_match(globs[1:], segments[n:]) for n in range(len(segments) + 1))
    return (
        bool(segments)
        and characters_match(globs[0], segments[0])
        and segments_match(globs[1:], segments[1:])
    )


def characters_match(glob, segment):
    if not glob:
        return not segment
    if glob[0] == "*":
        return any(characters_match(glob[1:], segment[n:]) for n in range(len(segment) + 1))
    if not segment:
        return False
    if glob[0] == "\\":
        return glob[1] == segment[0] and characters_match(glob[2:], segment[1:])
    return glob[0] in ("?", segment[0]) and characters_match(glob[1:], segment[1:])
