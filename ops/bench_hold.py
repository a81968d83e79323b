"""What a run of ops/bench has to hold: lines that say what was wanted, what was measured and which share of the wanted that is.

A line may belong to one of the figures to reach (docs/PERFORMANCE.md, "The figures to reach"); those are printed by figure. The
share is 1.00 or more where the figure is reached, whether more or less of it is better."""

FIGURES = {
    1: "small files out of the nodes' memory", 2: "an epoch that fits in memory", 3: "messages a small file", 4: "shards of this machine",
    5: "shards over TCP", 6: "CPU time of small files", 7: "a cold first epoch", 8: "hit rates of a cache that is too small",
    9: "listings, snapshots, walks", 10: "nodes together", 11: "checksums and preloads"}


def line(workload, what, measured, wanted, holds, decides=False, figure=None, share=None):
    """`holds` is None where something is missing that it takes; `decides`: it is a count, which decides the exit code."""
    return {"workload": workload, "what": what, "measured": measured, "wanted": wanted, "holds": holds, "decides": decides,
            "figure": figure, "share": share}


def _bound(workload, what, measured, bound, text, sign, decides, figure):
    if measured is None:
        return line(workload, what, "not measured", f"{sign} {text(bound)}", None, False, figure)
    if sign == ">=":
        holds, share = measured >= bound, measured / bound if bound else None
    else:
        # Of nothing there is no share: it is reached or not.
        holds, share = measured <= bound, bound / measured if measured > 0 else 1.0
    return line(workload, what, text(measured), f"{sign} {text(bound)}", holds, decides, figure, share)


def at_least(workload, what, measured, bound, text=lambda value: f"{value:.2f}x", decides=False, figure=None):
    return _bound(workload, what, measured, bound, text, ">=", decides, figure)


def at_most(workload, what, measured, bound, text=lambda value: f"{value:.2f}", decides=False, figure=None):
    return _bound(workload, what, measured, bound, text, "<=", decides, figure)


def exactly(workload, what, measured, wanted, holds=None, text=lambda value: f"{value:,}", decides=True, figure=None):
    """A count that has one right value; `holds` where `measured` stands for many of them."""
    same = measured == wanted if holds is None else holds
    share = 1.0 if same else min(wanted, measured) / max(wanted, measured, 1e-9)
    return line(workload, what, text(measured), f"= {text(wanted)}", same, decides, figure, share)


def counts_hold(lines):
    return all(one["holds"] for one in lines if one["decides"])


def verdict(one):
    return {True: "ok", False: "NOT REACHED", None: "-"}[one["holds"]]


def share_text(one):
    return "-" if one.get("share") is None else f"{one['share']:.2f}"


def print_lines(lines, say):
    """Lines of no figure first, then each figure's."""
    say("\nto hold (counts decide the exit code, times never)")
    if not lines:
        return say("  nothing was measured")
    width, first = (max(len(one[key]) for one in lines) for key in ("what", "workload"))
    for one in lines:
        if one["figure"] is None:
            say(f"  {one['workload']:{first + 2}}{one['what']:{width}}{one['measured']:>14}  {one['wanted']:14}{verdict(one)}")
    for number, name in FIGURES.items():
        of_figure = [one for one in lines if one["figure"] == number]
        if of_figure:
            say(f"figure {number}: {name}")
        for one in of_figure:
            found = "not measured" if one["holds"] is None else f"measured {one['measured']}, share {share_text(one)}"
            say(f"  {one['workload']:{first + 2}}{one['what']:{width}}  figure {number}: wanted {one['wanted']}, {found}  {verdict(one)}")
    return None
