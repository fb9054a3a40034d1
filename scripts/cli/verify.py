"""`stagecraft verify`."""


def verify() -> None:
    """Read every byte of all results, raw archives and checkpoints, and name each file that is not what was made.

    A start of the workflow hashes only files whose size or times changed. For example:

        stagecraft verify
    """
    from scripts.common.errors import UserError
    from scripts.experiment.provenance import FOLDERS
    from scripts.release.verify import verify

    found = verify(FOLDERS, print)
    for line in found.wrong:
        print(line)
    if found.wrong:
        raise UserError(f"{len(found.wrong)} things are wrong; a run makes again what is not as it was made")
    print(f"all files of {found.jobs} jobs and of {found.checkpoints} checkpoints are what was made")
