"""``superarm bound``: the guarantee of a problem, term by term."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from superarm.evaluation.figures import draw_bound, require_picture
from superarm.problems.guarantee import Example, KernelName, guarantee, measure
from superarm.theory.bounds import Bound, Policy, finite_bound

app = typer.Typer(help="Regret bounds.", no_args_is_help=True)


@app.callback()
def bound() -> None:
    """Regret bounds."""


@app.command()
def evaluate(  # noqa: PLR0913, PLR0917 - a problem and an algorithm
    policy: Annotated[Policy, typer.Option(help="ucb, bucb or ts (joint).")] = "ucb",
    arms: Annotated[int, typer.Option(min=3, help="Points in the unit cube.")] = 100,
    dimension: Annotated[int, typer.Option(min=1)] = 2,
    kernel: Annotated[KernelName, typer.Option(help="Of variance one.")] = "matern52",
    lengthscale: Annotated[float, typer.Option(help="Of the kernel.")] = 0.3,
    size: Annotated[int, typer.Option(min=1, help="K, how many arms are chosen.")] = 5,
    horizon: Annotated[int, typer.Option(min=1, help="T.")] = 200,
    noise: Annotated[float, typer.Option(help="Variance of the noise.")] = 0.25,
    omega: Annotated[float | None, typer.Option(help="Of bucb, above 1.")] = None,
    xi: Annotated[float | None, typer.Option(help="Of bucb.")] = None,
    information_gain: Annotated[
        float | None, typer.Option(help="gamma_TK, if you know it; then no kernel is needed.")
    ] = None,
    largest_eigenvalue: Annotated[
        float | None, typer.Option(help="lambda*_K, if you know it.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also measure regret and draw it beside the bound.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=2, help="Worlds behind the figure.")] = 20,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Evaluate Theorem 1: problem and algorithm in, every term and the total out."""
    if (information_gain is None) != (largest_eigenvalue is None):
        msg = "give both --information-gain and --largest-eigenvalue, or neither"
        raise typer.BadParameter(msg)
    if figure is not None:
        require_picture(figure)
    facts: dict[str, object] = {}
    if information_gain is not None and largest_eigenvalue is not None:
        if figure is not None:
            msg = "--figure measures a problem with a kernel; leave --information-gain out"
            raise typer.BadParameter(msg)
        found = finite_bound(
            policy,
            n_arms=arms,
            super_arm_size=size,
            horizon=horizon,
            noise_variance=noise,
            information_gain=information_gain,
            largest_eigenvalue=largest_eigenvalue,
            omega=omega,
            xi=xi,
        )
    else:
        example = Example(arms, dimension, kernel, lengthscale, size, None, noise, horizon, seed)
        known = guarantee(example, policy, omega=omega, xi=xi)
        found = known.bound
        facts = {
            "gamma_TK at least": known.gain.lower,
            "gamma_TK at most": known.gain.upper,
            "lambda*_K at most": known.eigenvalue.value,
            "lambda*_K from": known.eigenvalue.how,
        }
        if figure is not None:
            measured = measure(example, policy, repeats=repeats, omega=omega, xi=xi)
            draw_bound(measured.result.regret, measured.curve.mean, found.total, figure)
            facts["measured regret"] = float(measured.result.regret.mean[-1])
            facts["its standard error"] = float(measured.result.regret.standard_error[-1])
            facts["bound by the runs' own information"] = float(measured.curve.mean[-1])
    _show(found, facts, as_json=as_json)
    if figure is not None and not as_json:
        typer.echo(f"Figure: {figure}")


def _show(found: Bound, facts: dict[str, object], *, as_json: bool) -> None:
    everything = {**facts, **found.as_dict()}
    if as_json:
        typer.echo(json.dumps(everything))
        return
    table = Table(title="Bayesian regret is at most", show_header=False)
    for name, value in everything.items():
        table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
