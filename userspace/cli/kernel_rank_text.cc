// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_rank_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "messages/convert.h"
#include "policy/oom_selection.h"
#include "text/utf8.h"

namespace forestall::cli {
namespace {

constexpr std::size_t kOrderLimit = 10;
// Listed processes that die with the victim; a longer list is unreadable.
constexpr std::size_t kAlsoLimit = 8;

const ProcessSample& process_of(const KernelRankView& view, const OomChoice& choice) {
  return view.scene.processes[choice.process];
}

tables::ScoredRow row_of(const KernelRankView& view, const OomChoice& choice,
                         const tables::CgroupPaths& paths) {
  const ProcessSample& process = process_of(view, choice);
  return {&process, choice.points, std::nullopt, paths.of(process.cgroup)};
}

std::string nodes_text(NodeMask nodes) {
  const std::string list = node_list(nodes);
  const bool one = list.find_first_of("-,") == std::string::npos;
  return fmt::format("node{} {}", one ? "" : "s", list);
}

// A condition clause: "If … now".
std::string condition(const OomDomain& domain) {
  switch (domain.constraint) {
    case Constraint::none: return "If the node ran out of memory now";
    case Constraint::cpuset:
      return fmt::format("If a cpuset ran out of memory on its {} now", nodes_text(domain.nodes));
    case Constraint::memory_policy:
      return fmt::format("If a memory policy ran out of memory on its {} now",
                         nodes_text(domain.nodes));
    case Constraint::memcg:
      return fmt::format("If {} ran out of memory at its limit now", printable(domain.path));
  }
  return "";
}

// Earlier victims that the kernel waits for.
std::string earlier_victims(const OomScene& scene) {
  std::string names;
  for (const ProcessSample& process : scene.processes) {
    if (!process.oom_victim || process.oom_victim_reaped) continue;
    names += (names.empty() ? "" : ", ") + tables::who(process);
  }
  return names;
}

std::string why_allocating(const KernelRankView& view) {
  const ProcessSample& victim = process_of(view, *view.prediction.victim);
  return victim.dying ? "it allocates and is already exiting"
                      : "it allocates, and vm.oom_kill_allocating_task is set";
}

// The main clause of the prediction.
std::string verdict(const KernelRankView& view) {
  const OomPrediction& prediction = view.prediction;
  const OomScene& scene = view.scene;
  switch (prediction.verdict) {
    case OomVerdict::kills:
      return fmt::format("the kernel would kill {}",
                         tables::who(process_of(view, *prediction.victim)));
    case OomVerdict::kills_allocating:
      return fmt::format("the kernel would kill {}, because {}",
                         tables::who(process_of(view, *prediction.victim)), why_allocating(view));
    case OomVerdict::waits:
      return fmt::format(
          "the kernel would kill no other process: it waits for an earlier victim to exit, {}",
          earlier_victims(scene));
    case OomVerdict::no_victim:
      return scene.domain.constraint == Constraint::memcg
                 ? "the kernel would find no eligible process, and the allocation would fail"
                 : "the kernel would find no eligible process and would panic";
    case OomVerdict::panics:
      return fmt::format("the kernel would panic, because vm.panic_on_oom is {}",
                         scene.settings.panic_on_oom);
    case OomVerdict::disabled:
      return fmt::format(
          "the kernel would kill no process, because memory.oom_control of {} disables kills: "
          "allocations wait until memory is freed",
          printable(scene.domain.path));
  }
  return "";
}

// Compares the victim with the runner-up.
std::string comparison(const KernelRankView& view, const tables::ProcessShow& show) {
  const OomPrediction& prediction = view.prediction;
  if (!prediction.victim) return "";
  if (!prediction.runner_up) return "No other process is eligible.\n";
  const std::string next = tables::who(process_of(view, *prediction.runner_up));
  if (prediction.verdict == OomVerdict::kills_allocating) {
    return fmt::format("If another process allocated, the victim would be {}.\n", next);
  }
  if (prediction.tied) {
    return fmt::format(
        "It has exactly as many points as the runner-up, {}: of equal ones the kernel takes the "
        "last in its own order{}.\n",
        next,
        view.tie_order_known == false ? ", which is unknown here; either may be the victim" : "");
  }
  const Pages most = prediction.victim->points;
  if (!tables::are_pages(most)) return fmt::format("The runner-up is {}.\n", next);
  return fmt::format("It has {} more than the runner-up, {}.\n",
                     tables::pages_text(most - prediction.runner_up->points, show.page), next);
}

std::string group_path(const KernelRankView& view, const tables::CgroupPaths& paths) {
  const std::string path = paths.of(*view.prediction.group);
  return path.empty() ? fmt::format("cgroup {}", view.prediction.group->inode) : printable(path);
}

// Processes that die with the victim.
std::string company(const KernelRankView& view, const tables::CgroupPaths& paths) {
  const OomPrediction& prediction = view.prediction;
  std::string text;
  if (prediction.group) {
    text += fmt::format("The kernel kills all of {}, because its memory.oom.group is set.\n",
                        group_path(view, paths));
  }
  if (prediction.also.empty()) return text;
  std::string names;
  const std::size_t named = std::min(prediction.also.size(), kAlsoLimit);
  for (std::size_t i = 0; i < named; ++i) {
    names += (i == 0 ? "" : ", ") + tables::who(view.scene.processes[prediction.also[i]]);
  }
  const std::size_t more = prediction.also.size() - named;
  if (more > 0) names += fmt::format(" and {} more", more);
  return text + fmt::format("With it {}: {}.\n",
                            prediction.group ? "die" : "die the processes that share its memory",
                            names);
}

// Processes that die with the victim if they share its memory.
std::string company_unknown(const KernelRankView& view) {
  const std::size_t count = policy::may_die_too(view.scene, view.prediction);
  if (count == 0) return "";
  return fmt::format(
      "{} {} may die with it: whether {} its memory is unknown. Comparing processes of "
      "other users needs CAP_SYS_PTRACE.\n",
      count, count == 1 ? "process" : "processes", count == 1 ? "it shares" : "they share");
}

// The effect of a full oom_score_adj, and conditions that are unknown.
std::string terms(const KernelRankView& view, const tables::ProcessShow& show) {
  const OomDomain& domain = view.scene.domain;
  std::string of = "RAM and swap of the node";
  if (domain.constraint == Constraint::memcg) {
    of = fmt::format("what {} may use of RAM and swap", printable(domain.path));
  } else if (domain.constraint != Constraint::none) {
    of = fmt::format("RAM of {}, and all swap", nodes_text(domain.nodes));
  }
  std::string text = fmt::format("An oom_score_adj of 1000 is worth {}: {}.\n{}\n",
                                 tables::pages_text(domain.total_pages, show.page), of,
                                 tables::reading_text(view.reading));
  if (view.scene.settings.kill_allocating_task && !view.scene.allocating &&
      domain.constraint != Constraint::memcg) {
    text +=
        "vm.oom_kill_allocating_task is set: the allocating process would be the victim; "
        "give it with --allocating PID.\n";
  }
  return text;
}

std::string order_text(const KernelRankView& view, const tables::ProcessShow& show,
                       const tables::CgroupPaths& paths) {
  if (view.order.empty()) return "";
  std::vector<tables::ScoredRow> rows;
  const std::size_t shown = std::min(view.order.size(), kOrderLimit);
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(row_of(view, view.order[i], paths));
  std::string text = "\n" + tables::process_table(rows, show, true);
  if (shown < view.order.size()) {
    text += fmt::format("  and {} more, which --output json lists\n", view.order.size() - shown);
  }
  return text;
}

std::optional<Pages> margin(const OomPrediction& prediction) {
  if (!prediction.victim || !prediction.runner_up) return std::nullopt;
  const Pages most = prediction.victim->points;
  const Pages next = prediction.runner_up->points;
  if (!tables::are_pages(most) || !tables::are_pages(next)) return std::nullopt;
  return most - next;
}

}  // namespace

std::string node_list(NodeMask nodes) {
  std::string list;
  const auto allowed = [&](int node) { return node < 64 && (nodes >> node & 1) != 0; };
  for (int first = 0; first < 64; ++first) {
    if (!allowed(first)) continue;
    int last = first;
    while (allowed(last + 1)) ++last;
    list += fmt::format("{}{}", list.empty() ? "" : ",", first);
    if (last > first) list += fmt::format("-{}", last);
    first = last;
  }
  return list;
}

std::string kernel_rank_text(const KernelRankView& view, const tables::ProcessShow& show) {
  const tables::CgroupPaths paths(view.scene);
  const OomPrediction& prediction = view.prediction;
  std::string text = fmt::format("{}, {}.\n", condition(view.scene.domain), verdict(view));
  text += comparison(view, show) + company(view, paths) + company_unknown(view) + terms(view, show);
  if (prediction.victim) {
    std::vector<tables::ScoredRow> rows{row_of(view, *prediction.victim, paths)};
    if (prediction.runner_up) rows.push_back(row_of(view, *prediction.runner_up, paths));
    text += "\n" + tables::parts_table(rows, view.scene.domain.total_pages, show);
  }
  return text + order_text(view, show, paths);
}

v1::KernelRankReport to_report(const KernelRankView& view, const tables::ProcessShow& show) {
  const tables::CgroupPaths paths(view.scene);
  const OomPrediction& prediction = view.prediction;
  const Pages total = view.scene.domain.total_pages;
  v1::KernelRankReport report;
  *report.mutable_scene() = messages::to_proto(view.scene);
  report.set_page_bytes(show.page.count);
  *report.mutable_reading() = to_report(view.reading);
  *report.mutable_prediction() = messages::to_proto(prediction);
  if (prediction.victim) {
    *report.mutable_victim() = to_report(row_of(view, *prediction.victim, paths), total);
  }
  if (prediction.runner_up) {
    *report.mutable_runner_up() = to_report(row_of(view, *prediction.runner_up, paths), total);
  }
  if (const auto pages = margin(prediction)) report.set_margin_pages(*pages);
  if (view.tie_order_known) report.set_tie_order_known(*view.tie_order_known);
  for (const OomChoice& choice : view.order) {
    const ProcessSample& process = process_of(view, choice);
    v1::KernelCandidate& added = *report.add_order();
    added.set_process(static_cast<std::uint32_t>(choice.process));
    added.set_pid(process.id.pid);
    added.set_name(text::to_utf8(process.name()));
    added.set_cgroup(text::to_utf8(paths.of(process.cgroup)));
    added.set_points(choice.points);
  }
  return report;
}

}  // namespace forestall::cli
