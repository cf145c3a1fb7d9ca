"""What notebook 04 draws: the worth of packs, two prices of each length, and what a depth limit costs."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from packbook.figures import INK, label_ends, name_rows, new_figure, plain_ticks, series, show, styled
from packbook.n04_optimal_packing.runs import as_fraction, scarce
from packbook.shared.histograms import shown_name
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan

ASKED = 200  # tokens of the sequence whose price at depth 3 the notebook asks for


@styled()
def show_round(
    compared: Sequence[Sequence[int]], needed: Sequence[float], prices: Sequence[dict[int, Fraction]]
) -> None:
    """Show what packs are worth before and after a round of column generation; a dotted line is the cost of a pack.

    Args:
        compared: the packs, as lengths.
        needed: packs of the solution, in fractions, before and after.
        prices: by length, in packs, before and after.
    """
    bar_look = {"color": series("packed")["color"], "ec": "white", "lw": 2}
    text_look = {"ha": "center", "va": "center", "color": "white", "fontweight": "bold"}
    listed = []
    fig, axes = new_figure(1, 2, sharey=True)
    for ax, when, packs, price_of in zip(axes, ("Before", "After"), needed, prices, strict=True):
        for row, pack in enumerate(compared):
            worth = Fraction(0)  # of the sequences so far
            for length in pack:
                price = price_of[length]
                ax.barh(row, float(price), left=float(worth), height=0.7, **bar_look)
                ax.text(float(worth + price / 2), row, str(length), **text_look)
                worth += price
            ax.text(float(worth) + 0.03, row, str(worth), va="center")
        ax.axvline(1, color=INK, linestyle=":", linewidth=2, zorder=0)
        name_rows(ax, [" + ".join(map(str, pack)) for pack in compared], above=0.6, below=0.6)
        ax.set(xlim=(0, 1.4), xlabel="worth, in packs", title=when)
        values = []
        for pack in compared:
            values.append(f"{' + '.join(map(str, pack))} is worth {sum(price_of[length] for length in pack)}")
        listed.append(f"{when}, with {as_fraction(packs)} packs, {', '.join(values)}")
    fig.suptitle(f"One bargain joins, and {needed[0]:.2f} packs become {needed[1]:.2f}")
    show(fig, alt=f"{'. '.join(listed)}.", name="one-round")


@styled()
def show_rounds(solutions: Sequence[float], bounds: Sequence[int], grid: LengthHistogram) -> None:
    """Show the packs of each round's solution and the best bound so far, both relative to the last bound.

    Args:
        solutions: packs in fractions, one number for each round.
        bounds: packs, one number for each round.
        grid: whose packs these are.
    """
    fig, ax = new_figure()
    for name, heights, look in (
        ("packs, in fractions", solutions, series("optimal")),
        ("bound", bounds, {"color": INK, "marker": "^", "fillstyle": "none", "markersize": 12}),
    ):
        relative = np.array(heights) / bounds[-1]
        ax.plot(range(1, len(bounds) + 1), relative, markevery=max(1, len(bounds) // 10), **look)
        ax.annotate(name, (1, relative[0]), (8, 6), textcoords="offset points")
    ax.margins(y=0.12)
    ax.set(xlabel="round", ylabel="relative to the last bound")
    ax.xaxis.get_major_locator().set_params(integer=True)
    none_better = "No pack is worth more than it costs: the first round is the last"
    ax.set_title("Fewer packs and a higher bound, until they meet" if len(bounds) > 1 else none_better)
    rounds = "1 round" if len(bounds) == 1 else f"{len(bounds)} rounds"
    ends = f"packs from {solutions[0] / bounds[-1]:.3f} to {solutions[-1] / bounds[-1]:.3f}, "
    ends += f"bound from {bounds[0] / bounds[-1]:.3f} to 1.000"
    show(fig, alt=f"{shown_name(grid)}, {rounds}. Relative to the last bound: {ends}.", name="rounds")


@styled()
def show_spoiled(errors: Sequence[int], proven: Sequence[int], packs: int) -> None:
    """Show the bound that prices with errors prove, as a share of the packs of a plan.

    Args:
        errors: largest error of a price, in percent.
        proven: the bound at each error, in packs.
        packs: of the plan.
    """
    fig, ax = new_figure()
    shares = [100 * bound / packs for bound in proven]
    ax.plot(errors, shares, **series("optimal"))
    ax.axhline(100, color=INK, linestyle=":", linewidth=2)
    ax.text(30, 100.4, "the packing", ha="right", va="bottom")
    ax.set(
        title="Wrong prices never prove too much",
        xlabel="error of each price, up to %",
        ylabel="bound, % of the packing",
        ylim=(min(shares) - 3, 103),
    )
    listed = ", ".join(f"{share:.1f} % at {error} %" for error, share in zip(errors, shares, strict=True))
    show(fig, alt=f"The bound as a share of the packing, by the error of prices: {listed}.", name="spoiled-prices")


@styled()
def show_prices(costs: Mapping[str, np.ndarray], exact: LengthHistogram, mark: Callable[..., None]) -> None:
    """Show the price of each length at two depth limits.

    The notebook asks for a price of Wikipedia at depth 3. If that is drawn, the answer and the guess are marked.

    Args:
        costs: by the name of the depth limit, the prices of the lengths that occur, in packs, shape (lengths,).
        exact: the histogram.
        mark: draws the reader's guess, as `Questions.mark`.
    """
    lengths = np.flatnonzero(exact.counts)
    labeled = 3 * len(lengths) // 4  # index of the length at which the lines are labeled
    fig, ax = new_figure()
    looks = (INK, "-", (0, -10), "left", "top"), ("#888888", "--", (0, 10), "right", "bottom")
    for (name, prices), (color, line, offset, ha, va) in zip(costs.items(), looks, strict=True):
        ax.plot(lengths, prices, color=color, linestyle=line)
        ax.annotate(name, (lengths[labeled], prices[labeled]), offset, textcoords="offset points", ha=ha, va=va)
    ax.set(xlabel="length", ylabel="price, in packs")

    limits = [f"with {name}" if name == "no limit" else f"at {name}" for name in costs]
    first_limit, second_limit = limits
    first_pays, second_pays = (scarce(lengths, prices, exact.max_length) for prices in costs.values())
    if not first_pays or not second_pays:
        claim = "what each length costs"
    elif first_pays == second_pays:
        claim = f"{first_limit} and {second_limit} {first_pays} costs"
    else:
        claim = f"{first_limit} {first_pays} costs, {second_limit} {second_pays}"
    ax.set_title(claim[0].upper() + claim[1:])
    listed = " and ".join(f"{prices[labeled]:.3f} at {name}" for name, prices in costs.items())
    if exact.name == "wikipedia" and "depth 3" in costs:
        (asked_index,) = np.flatnonzero(lengths == ASKED)
        worth = costs["depth 3"][asked_index]
        ax.plot(ASKED, worth, "o", markersize=12, fillstyle="none", color=INK)
        ax.annotate(f"{ASKED} tokens: {worth:.3f}", (ASKED, worth), (0, -14), textcoords="offset points", va="top")
        mark(ax, "worth", "y")
    show(fig, alt=f"{shown_name(exact)}: length {lengths[labeled]} costs {listed}.", name="prices")


@styled()
def show_worth_of_search(above: Mapping[str, tuple[int, int]], bounds: Mapping[str, int]) -> None:
    """Show, for each data set, how many percent more packs than the proven minimum best fit and the search make.

    Args:
        above: by data set, packs above the bound of LPFHP, and of the search.
        bounds: by data set, packs that are proven to be needed.
    """
    fig, ax = new_figure()
    for row, (name, packs_above) in enumerate(above.items()):
        ax.axhline(row, color="#dddddd", linewidth=1, linestyle="-", zorder=0)
        shares = [100 * packs / bounds[name] for packs in packs_above]
        for share, method in zip(shares, ("lpfhp", "optimal"), strict=True):
            ax.plot(share, row, **{**series(method), "linestyle": ""}, markersize=10, clip_on=False)
        label = f"{packs_above[0]:,} → {packs_above[1]:,} packs" if packs_above[0] else "0 packs"
        ax.annotate(label, (max(shares), row), (12, 0), textcoords="offset points", va="center")
    name_rows(ax, list(above), above=1.2, below=0.6)
    most = max(0.1, *(100 * packs / bounds[name] for name, packs_above in above.items() for packs in packs_above))
    ax.set(xlim=(-0.01 * most, 1.45 * most), xlabel="packs above the proven minimum, %")
    name, packs_above = max(above.items(), key=lambda item: item[1][0] / bounds[item[0]])
    most_above = 100 * packs_above[0] / bounds[name]
    ax.set_title(f"Best fit is farthest from the minimum on {name}: {most_above:.2f} % more packs")
    for method, label in (("lpfhp", "best fit (LPFHP)"), ("optimal", "search")):
        ax.plot([], [], **{**series(method), "linestyle": ""}, markersize=10, label=label)  # for the legend alone
    ax.legend(loc="upper right", ncols=2)
    listed = "; ".join(
        f"{name}: {best_fit:,} by best fit, {search:,} by the search" for name, (best_fit, search) in above.items()
    )
    show(fig, alt=f"Packs above the proven minimum, without a depth limit. {listed}.", name="worth-of-search")


@styled()
def show_depths(
    plans: Mapping[tuple[str, int | None], PackingPlan], enough: int | None, exact: LengthHistogram
) -> None:
    """Show how many percent more packs than the fewest without a limit each method makes, by depth limit.

    Args:
        plans: by method and depth limit.
        enough: the lowest depth limit at which the best plan is within 0.01 % of no limit; None if there is none.
        exact: the histogram.
    """
    depths = [depth for method, depth in plans if method == "optimal"]
    fewest = plans["optimal", None].num_packs
    names = dict(spfhp="SPFHP", lpfhp="LPFHP", optimal="optimal")
    more = {name: [100 * (plans[name, depth].num_packs / fewest - 1) for depth in depths] for name in names}  # percent
    fig, ax = new_figure()
    lines = {ax.plot(range(len(depths)), more[name], **series(name))[0]: label for name, label in names.items()}
    ax.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    plain_ticks(ax.yaxis, (0, 0.01, 0.1, 1, 10, 100))
    ax.set_xticks(range(len(depths)), [str(depth or "none") for depth in depths])
    ax.set(ylim=(-0.006, 300), xlabel="depth limit", ylabel="packs above no limit, %")
    label_ends(lines)
    ax.set_title(f"Depth {enough} is within 0.01 % of no limit" if enough else "Even depth 16 costs over 0.01 %")
    listed = "; ".join(f"{method} {', '.join(f'{share:.2f}' for share in shares)}" for method, shares in more.items())
    alt = f"at depth {', '.join(str(depth or 'none') for depth in depths)}: {listed}."
    numbers = {f"depth {depth or 'none'}": share for depth, share in zip(depths, more["optimal"], strict=True)}
    show(
        fig,
        alt=f"{shown_name(exact)}. Packs above the best without a limit, in percent, {alt}",
        name="depth",
        numbers=numbers,
    )
