// SPDX-License-Identifier: Apache-2.0
#include "offline/trace_play.h"

#include <deque>
#include <utility>

#include "descheduler/descheduler_policy.h"
#include "offline/rebalance_input.h"
#include "offline/trace_states.h"
#include "rebalance/trace_simulation.h"

namespace forestall::cli {
namespace {

// An object that two files of a state have would count twice.
template <typename List, typename Same>
const typename List::value_type* find_twice(const List& sorted, Same same) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (same(sorted[i - 1], sorted[i])) return &sorted[i];
  }
  return nullptr;
}

// `pods_before`: of the state before.
std::string problem_of(const rebalance::Snapshot& state, std::size_t pods_before) {
  if (state.nodes.empty()) return "the state has no nodes";
  // Its moved pods would count as ended.
  if (state.pods.empty() && pods_before > 0) {
    return "the state has no pods, and the one before it has " + std::to_string(pods_before) +
           ": kubectl failed, or its file was not complete; the trace can be played without it, "
           "with --max-gap";
  }
  const auto* const node =
      find_twice(state.nodes, [](const auto& a, const auto& b) { return a.name == b.name; });
  if (node != nullptr) return "the state has Node " + std::string(node->name) + " twice";
  const auto* const pod = find_twice(state.pods, [](const auto& a, const auto& b) {
    return a.name == b.name && a.pod_namespace == b.pod_namespace;
  });
  if (pod == nullptr) return "";
  return "the state has Pod " + std::string(pod->pod_namespace) + "/" + std::string(pod->name) +
         " twice";
}

// Nothing after an error, which is in `findings`.
std::optional<rebalance::Snapshot> read_state(const RecordedState& state, std::size_t pods_before,
                                              text::Findings& findings) {
  using Reader = descheduler::ClusterSnapshotReader;
  Reader reader;
  for (const std::string& each : state.files) {
    if (!add_file(reader, each, findings)) return std::nullopt;
  }
  rebalance::Snapshot snapshot = reader.take(state.time_ns, Reader::Repeated::kept);
  std::string problem = problem_of(snapshot, pods_before);
  if (problem.empty()) return snapshot;
  findings.errors.push_back({{state.files.back(), std::nullopt}, std::move(problem)});
  return std::nullopt;
}

class TracePlayer {
 public:
  TracePlayer(const SimulateOptions& simulate, const std::vector<NamedPolicy>& policies,
              std::int64_t usual_gap_ns)
      : options_{.interval_seconds = simulate.interval_seconds,
                 .usual_gap_ns = usual_gap_ns,
                 .placeholders = simulate.placeholders},
        policies_(policies) {}

  // Whether the policies are valid.
  bool play(const rebalance::Snapshot& state, text::Findings& findings) {
    if (simulations_.empty() && !start(state, findings)) return false;
    for (rebalance::TraceSimulation& each : simulations_) each.play(state);
    rebalance::compare_runs(simulations_);
    if (played_.states == 0) played_.first_ns = state.taken_ns;
    played_.last_ns = state.taken_ns;
    played_.has_reports = played_.has_reports || !state.reports.empty();
    ++played_.states;
    return true;
  }

  void leave_out(std::vector<text::Finding> findings) { played_.left_out = std::move(findings); }

  PlayedTrace take() && {
    for (rebalance::TraceSimulation& each : simulations_) {
      played_.runs.push_back(std::move(each).take());
    }
    return std::move(played_);
  }

 private:
  bool start(const rebalance::Snapshot& state, text::Findings& findings) {
    const auto parsed = parse_policies(policies_, &state.priority_classes, findings);
    if (!findings.errors.empty()) return false;
    simulations_.emplace_back(options_, "none", nullptr);
    for (const ParsedPolicy& each : parsed) {
      simulations_.emplace_back(options_, each.name, &each.policy);
    }
    return true;
  }

  const rebalance::TracePlayOptions options_;
  const std::vector<NamedPolicy>& policies_;
  std::deque<rebalance::TraceSimulation> simulations_;
  PlayedTrace played_;
};

}  // namespace

std::vector<ParsedPolicy> parse_policies(const std::vector<NamedPolicy>& policies,
                                         const std::vector<rebalance::PriorityClass>* classes,
                                         text::Findings& findings) {
  std::vector<ParsedPolicy> parsed;
  for (const NamedPolicy& each : policies) {
    auto policy = descheduler::parse_descheduler_policy(each.name, each.text, classes, findings);
    if (policy) parsed.push_back({each.name, std::move(policy->policy)});
  }
  return parsed;
}

std::optional<PlayedTrace> play_trace(const SimulateOptions& simulate,
                                      const std::vector<NamedPolicy>& policies,
                                      text::Findings& findings) {
  const auto states = list_states(simulate.trace, simulate.max_gap_seconds, findings);
  if (!findings.errors.empty()) return std::nullopt;
  TracePlayer player(simulate, policies, usual_gap_of(states));
  std::size_t pods_before = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    text::Findings problems;
    const auto state = read_state(states[i], pods_before, problems);
    // Its writer may have been stopped, or may still write.
    const bool may_be_cut = i > 0 && i + 1 == states.size();
    if (!state && may_be_cut) {
      player.leave_out(std::move(problems.errors));
    } else if (!state || !player.play(*state, problems)) {
      findings = std::move(problems);
      return std::nullopt;
    }
    if (state) pods_before = state->pods.size();
  }
  return std::move(player).take();
}

}  // namespace forestall::cli
