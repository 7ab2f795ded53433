"""A batch in which one case kills the worker that gets it, once or always.

python killing.py FOLDER OUTPUT.jsonl ENGINE once|always
"""

import os
import signal
import sys
from pathlib import Path

from optimiser.review.tables import write_table
from optimiser.studies import batch
from optimiser.studies.batch_inputs import gather
from optimiser.studies.batch_summary import rows
from optimiser.studies.batch_work import Job, answer_chunk
from optimiser.studies.engines import opened
from optimiser.studies.journal import Journal


def main(folder: str, output: str, engine_name: str, how_often: str) -> None:
    flag = Path(f"{output}.killed")
    here = os.getpid()

    def deadly(job, items):
        for item in items:
            if item.source.endswith("case-000017.yaml") and (
                how_often == "always" or not flag.exists()
            ):
                flag.touch()
                if os.getpid() != here:
                    os.kill(os.getpid(), signal.SIGKILL)
        return answer_chunk(job, items)

    batch.answer_chunk = deadly
    items = gather([folder])
    journal = Journal(Path(f"{output}.journal"))
    with journal.open(afresh=True), opened(engine_name, len(items), jobs=2) as engine:
        answers = batch.run(items, Job(), engine, journal, lambda *_: None, {})
    write_table(list(rows(items, answers, "levers")), Path(output))


if __name__ == "__main__":
    main(*sys.argv[1:])
