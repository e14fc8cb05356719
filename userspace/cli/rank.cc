// SPDX-License-Identifier: Apache-2.0
// `forestall rank`: the workloads of this host in eviction order, with every compared value. Pods
// from files: rank_pods.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/host_evaluation.h"
#include "cli/rank_kernel.h"
#include "cli/rank_pods.h"
#include "daemon/rank_report.h"
#include "intake/amounts.h"
#include "kernel/cgroup_tree.h"
#include "messages/json.h"
#include "policy/rank.h"
#include "tables/rank_text.h"

namespace forestall::cli {
namespace {

using namespace std::chrono_literals;

// The command line in model terms.
struct Question {
  Signal signal = Signal::memory_available;
  std::optional<FilesystemLayout> layout;
  Duration growth_over{0};
};

Result<Question> question_of(const RankOptions& options) {
  Question question;
  if (!options.signal.empty()) question.signal = TRY(signal_option(options.signal));
  if (!options.fs_layout.empty()) {
    question.layout = parse_filesystem_layout(options.fs_layout);
    if (!question.layout) {
      return error(fmt::format("--fs-layout: expected single, imagefs or split, found '{}'",
                               options.fs_layout));
    }
  }
  if (!options.growth_over.empty()) {
    const auto parsed = intake::parse_duration_within(options.growth_over, 1ms, 10min);
    if (!parsed) return error("--growth-over: " + parsed.error().message);
    question.growth_over = *parsed;
  }
  const std::string& cgroup = options.cgroup;
  if (!cgroup.empty() && (cgroup.front() != '/' || (cgroup.size() > 1 && cgroup.back() == '/'))) {
    return error(
        fmt::format("--cgroup {}: give an absolute path of the memory hierarchy, without a slash "
                    "at its end",
                    cgroup));
  }
  if (!cgroup.empty() && !options.pods.empty()) {
    return error("--cgroup selects workloads of this host and cannot be combined with --pods");
  }
  return question;
}

policy::Subject subject_of(const std::string& cgroup, const HostEvaluation& evaluation) {
  if (cgroup.empty()) return {};
  // Any identity but the node's: the ranking uses the path.
  policy::Subject subject{CgroupId{UINT64_MAX}, cgroup};
  for (const CgroupSample& each : evaluation.observation.watched) {
    if (each.path == cgroup) subject.cgroup = each.id;
  }
  return subject;
}

std::size_t limit_of(const RankOptions& options) {
  return options.limit > 0 ? options.limit : SIZE_MAX;
}

std::vector<std::string> describe(const Workload& workload) {
  return {workload.name, workload.path};
}

// A misspelt path would give the output of a cgroup without workloads.
Result<void> check_cgroup(const Options& options, const std::string& cgroup) {
  if (cgroup.empty()) return {};
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  const auto opened = tree.open(cgroup);
  return opened ? Result<void>() : opened.error().in("--cgroup");
}

void print_text(const std::vector<Candidate>& order, const policy::RankBy& by,
                const RankOptions& options) {
  if (order.empty()) {
    const std::string where = options.cgroup.empty() ? "" : " in " + printable(options.cgroup);
    fmt::print("no workloads{}: no pod was found, and no cgroup matches a workload rule\n", where);
    return;
  }
  const tables::OrderRows rows{limit_of(options), options.with_empty};
  fmt::print("{}", tables::order_text(order, resource_of(by.signal), {"workload", "cgroup"},
                                      describe, by.ranking, rows));
  const auto empty = static_cast<std::size_t>(std::ranges::count_if(
      order, [&](const Candidate& each) { return each.exclusion == Exclusion::empty; }));
  const std::size_t hidden = options.with_empty ? 0 : empty;
  const std::size_t shown = std::min(order.size() - hidden, rows.limit);
  if (shown + hidden < order.size()) {
    fmt::print("more workloads: {}; -n shows more\n", order.size() - hidden - shown);
  }
  if (hidden > 0) fmt::print("workloads without processes: {}; --all shows them\n", hidden);
}

// If a workload has no points, points are not compared.
void report_unscored(const HostEvaluation& evaluation, const std::vector<WorkloadSample>& workloads,
                     const policy::RankBy& by) {
  if (by.ranking != Ranking::kernel || resource_of(by.signal) != Resource::memory) return;
  const bool scored = std::all_of(workloads.begin(), workloads.end(),
                                  [](const WorkloadSample& each) { return each.scored; });
  if (scored) return;
  fmt::print(stderr, "processes could not be scored; kubelet's order applies\n");
  for (const SourceNote& note : evaluation.observation.notes) {
    fmt::print(stderr, "note: {}: {}\n", printable(note.subject), printable(note.problem));
  }
}

// The agent takes its baseline when memory becomes short. The command takes one only with
// --growth-over.
void report_growth_unknown(const Question& question, const policy::RankBy& by) {
  if (by.ranking != Ranking::kubelet_growth || question.growth_over > Duration::zero()) return;
  if (resource_of(by.signal) != Resource::memory) return;
  fmt::print(stderr,
             "growth is unknown, so kubelet's order applies; --growth-over 1s measures it\n");
}

int rank_host(const Options& options, const RankOptions& rank_options, const Question& question) {
  if (const auto known = check_cgroup(options, rank_options.cgroup); !known) {
    return fail("rank", known.error(), kExitUsage);
  }
  const bool on_disk = filesystem_of(question.signal).has_value();
  auto evaluated =
      evaluate_host(options, on_disk ? Depth::disk : Depth::memory, question.growth_over);
  if (const auto* failure = std::get_if<EvaluationFailure>(&evaluated)) {
    return report_failure("rank", *failure);
  }
  HostEvaluation& evaluation = std::get<HostEvaluation>(evaluated);
  for (const std::string& warning : evaluation.warnings) fmt::print(stderr, "{}\n", warning);
  policy::RankBy by{question.signal, question.layout, evaluation.config.compat,
                    evaluation.config.ranking};
  std::string_view layout_from = "option";
  if (!by.layout) {
    by.layout = evaluation.observation.filesystems.layout;
    layout_from = by.layout ? "host" : "default";
  }
  auto& workloads = *evaluation.observation.workloads;
  daemon::keep_rankable(question.signal, workloads);
  report_unscored(evaluation, workloads, by);
  report_growth_unknown(question, by);
  const policy::Exclusions exclusions(workloads, evaluation.observation.kills);
  auto order = policy::rank(workloads, by, subject_of(rank_options.cgroup, evaluation), exclusions);
  if (options.output == OutputFormat::json) {
    order.resize(std::min(order.size(), limit_of(rank_options)));
    fmt::print("{}", messages::to_json(daemon::rank_report(order, by, layout_from),
                                       messages::JsonStyle::pretty));
  } else {
    print_text(order, by, rank_options);
  }
  return kExitOk;
}

}  // namespace

Result<Signal> signal_option(const std::string& text) {
  if (const auto signal = parse_signal(text)) return *signal;
  std::string all;
  for (const SignalRow& row : kSignalTable) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", row.name);
  }
  return error(fmt::format("--signal: unknown signal '{}'; signals are: {}", text, all));
}

int run_rank(const Options& options, const RankOptions& rank_options) {
  const auto question = question_of(rank_options);
  if (!question) {
    fmt::print(stderr, "forestall rank: {}\n", printable_lines(question.error().text()));
    return kExitUsage;
  }
  if (rank_options.kernel.enabled) return rank_kernel(options, rank_options);
  if (rank_options.pods.empty()) return rank_host(options, rank_options, *question);
  return rank_pods(options, rank_options, question->signal, question->layout);
}

}  // namespace forestall::cli
