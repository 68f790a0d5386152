"""See what reward models value: a small library for scoring every token of a vocabulary and reading
the ranking.

Its rooms, in reading order. A room imports only from rooms above it in this list.

- io: whole files, locks, hashes, names, what a terminal shows
- threads: how a process shares the cores and the memory of the machine
- tables/: score tables, collections, prompts, lexicons, the registry of models, published files
- stats/: means over words and models, resampling, relabelling of models
- models/: conversations, chat templates, checkpoints, heads, reward and language models
- scoring/: the reader of a prompt, every token as the reply
- show/: tokens that are safe to show, figures in one style, shared charts, templates of pages, and
  what a notebook says of its own run
- claims/: the paper's sentences and numbers, the rules that give each its word, the scorecard
- similarity/: agreement of rankings, and what it goes with (notebooks 02, 03)
- framing/: slopes by sentiment and by frequency (notebooks 04, 05)
- alignment/: models and people (notebooks 06, 07)
- search/: longer replies: GCG and its kin (notebook 08)
- trained/: ten small models whose values are known, and V-Smol-135M, a reward model of human
  ratings (notebooks 00, 01, 08, 12)
- language/: log-probabilities of language models, and how much leaks in (notebook 09)
- apps/runner/: runs of notebooks: jobs, what is unchanged, pages
- run: the command line

Two packages stand beside it: audit (for whoever owns a reward model) and course (for a teacher).

Three files to read first: models/heads (from a state to a reward), scoring/reader (how a prompt is
read once) and search/gcg.
"""

from pathlib import Path

from .threads import share_cores

__version__ = "1.0.0"

share_cores()  # before torch is loaded
_HERE = Path(__file__).resolve().parent
# a wheel holds the tables of data/ inside the package
_IS_INSTALLED = (_HERE / "data").is_dir()
# the tables that the library reads
DATA = _HERE / "data" if _IS_INSTALLED else _HERE.parent / "data"
# Where scores, figures and caches go: the project, or the folder in which an installed library is
# used.
ROOT = Path.cwd() if _IS_INSTALLED else _HERE.parent


class InputError(ValueError):
    """A problem that the reader can mend; its message is one line that names the remedy."""


if __name__ == "lib":

    def load(name: str | Path, **options):
        """Return the reward model of that nickname, hub id or folder: see
        lib.models.reward_models.load.
        """
        from .models import reward_models  # here, because torch takes seconds to load

        return reward_models.load(name, **options)

else:
    # Under its installed name, the package gives audit's names, each loaded when it is asked for:
    # audit's `load` opens every form of a reward model.
    from . import audit

    __all__, __getattr__ = audit.__all__, audit.__getattr__
