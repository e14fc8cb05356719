// SPDX-License-Identifier: Apache-2.0
// Eviction order of pods from files, and the message and grace of the first eviction. Uses the
// policy's own ranking.
//
// The command assumes that the signal is below its threshold, whatever the statistics show. The
// configured threshold gives the grace period. If the statistics show that it is met, the message
// quotes it as kubelet's does.
#include "cli/rank_pods.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "model/duration.h"
#include "policy/containerfs.h"
#include "policy/eviction_notice.h"
#include "policy/grace.h"
#include "policy/protection.h"
#include "policy/qos.h"
#include "policy/rank.h"
#include "policy/signals.h"
#include "sources/pod_annotations.h"
#include "tables/rank_text.h"

namespace forestall::cli {
namespace {

struct FoundLayout {
  FilesystemLayout layout = FilesystemLayout::single;
  std::string_view from;  // as RankReport::fs_layout_from
};

struct RankedPods {
  Signal signal = Signal::memory_available;
  FoundLayout layout;
  JoinedPods pods;
  // In the form of a decision: the order, the eviction of the first evictable candidate, and the
  // evidence of the signal's threshold, if there is one with statistics.
  Decision decision;
};

FoundLayout choose_layout(std::optional<FilesystemLayout> given,
                          const intake::StatsSummary& summary) {
  if (given) return {*given, "option"};
  if (summary.filesystems.layout) return {*summary.filesystems.layout, "summary"};
  return {FilesystemLayout::single, "default"};
}

Observation observation_of(const intake::StatsSummary& summary, FilesystemLayout layout) {
  Observation observation;
  observation.node = summary.memory;
  observation.pods = summary.pods_cgroup;
  observation.filesystems = summary.filesystems;
  observation.filesystems.layout = layout;
  // Old kubelets report no writable layers: the layout determines on which filesystem they are.
  if (!observation.filesystems.containerfs) {
    observation.filesystems.containerfs = layout == FilesystemLayout::imagefs
                                              ? observation.filesystems.imagefs
                                              : observation.filesystems.nodefs;
  }
  observation.tasks = summary.tasks;
  return observation;
}

// The thresholds on `signal`, those on containerfs derived as kubelet derives them.
std::vector<Threshold> thresholds_on(Signal signal, const Config& config, FilesystemLayout layout) {
  std::vector<Threshold> found;
  if (filesystem_of(signal) == Filesystem::containerfs) {
    for (DerivedThreshold& each : policy::containerfs_thresholds(config.thresholds, layout)) {
      if (each.threshold.signal == signal) found.push_back(std::move(each.threshold));
    }
    return found;
  }
  std::copy_if(config.thresholds.begin(), config.thresholds.end(), std::back_inserter(found),
               [&](const Threshold& each) { return each.signal == signal; });
  return found;
}

Evidence compare(const Threshold& threshold, const policy::SignalState& state) {
  Evidence evidence;
  evidence.threshold = threshold;
  evidence.subject = "node";
  evidence.capacity = state.capacity;
  evidence.available = state.available;
  evidence.limit = threshold.limit.of(state.capacity);
  evidence.met = evidence.limit > binary(state.available);
  evidence.driving = evidence.met;
  return evidence;
}

// The threshold that drives the decision: a met one before an unmet one, hard before soft. Without
// any, the signal counts as hard.
Evidence driving_evidence(Signal signal, const Config& config, const Observation& observation,
                          std::vector<Evidence>& compared) {
  const FilesystemLayout layout = *observation.filesystems.layout;
  const std::vector<Threshold> thresholds = thresholds_on(signal, config, layout);
  const auto state = policy::signal_state(signal, observation);
  Evidence best;
  best.threshold.signal = signal;
  bool first = true;
  for (const Threshold& each : thresholds) {
    Evidence evidence;
    evidence.threshold = each;
    if (state) evidence = compare(each, *state);
    const auto rank = [](const Evidence& one) { return std::pair(one.met, one.threshold.hard()); };
    if (first || rank(evidence) > rank(best)) best = evidence;
    first = false;
  }
  if (!first && state) compared.push_back(best);
  return best;
}

Eviction eviction_of(const Candidate& victim, std::size_t index, const Evidence& driving,
                     const Config& config) {
  Eviction eviction;
  eviction.candidate = index;
  eviction.grace = policy::eviction_grace(config, driving.threshold, victim.sample.workload);
  eviction.at_once = policy::kills_at_once(config, driving.threshold);
  policy::write_notice(victim, driving, {}, eviction);
  return eviction;
}

RankedPods rank_input(const Config& config, Signal signal, FoundLayout layout,
                      std::vector<intake::ListedPod> listed, const intake::StatsSummary& summary) {
  RankedPods ranking;
  ranking.signal = signal;
  ranking.layout = layout;
  ranking.pods = join(std::move(listed), summary);
  for (WorkloadSample& each : ranking.pods.workloads) {
    sources::apply_annotations(config.pod_annotations, each.workload);
  }
  const std::vector<KillProgress> no_kills;
  const policy::Exclusions exclusions(ranking.pods.workloads, no_kills);
  const policy::RankBy by{signal, layout.layout, config.compat};
  Decision& decision = ranking.decision;
  decision.considered = policy::rank(ranking.pods.workloads, by, {}, exclusions);
  // Kubelet ranks a pod without processes in its statistics like any other.
  for (Candidate& each : decision.considered) {
    if (each.exclusion == Exclusion::empty) each.exclusion = Exclusion::none;
  }
  const Evidence driving =
      driving_evidence(signal, config, observation_of(summary, layout.layout), decision.evidence);
  const auto victim =
      std::find_if(decision.considered.begin(), decision.considered.end(),
                   [](const Candidate& each) { return each.exclusion == Exclusion::none; });
  if (victim != decision.considered.end()) {
    const auto index = static_cast<std::size_t>(victim - decision.considered.begin());
    decision.evictions.push_back(eviction_of(*victim, index, driving, config));
  }
  return ranking;
}

v1::RankedPod ranked_pod(const std::vector<Candidate>& order, std::size_t i, Resource resource) {
  const Candidate& candidate = order[i];
  const Pod& pod = *candidate.sample.workload.pod;
  const RankKey& key = candidate.key;
  v1::RankedPod out;
  out.set_position(static_cast<std::uint32_t>(i + 1));
  *out.mutable_pod() = pod_name(pod);
  out.set_qos_class(std::string(to_string(policy::qos_class(pod))));
  out.set_measured(key.measured);
  out.set_priority(key.priority);
  if (key.measured) out.set_usage(key.usage);
  if (resource != Resource::pids) {
    out.set_request(tables::request_of(candidate, resource).value_or(Bytes{0}).count);
    if (key.measured) out.set_exceeds_request(key.exceeds_request);
    if (key.measured) out.set_over_request(key.over_request);
  }
  if (i + 1 < order.size()) {
    out.set_decided_by(std::string(policy::deciding_rule(key, order[i + 1].key, resource)));
  }
  const Workload& workload = candidate.sample.workload;
  out.set_protection(std::string(to_string(policy::protection_of(workload))));
  out.set_protection_reason(tables::protection_reason(workload));
  return out;
}

void print_json(const RankedPods& ranking) {
  const Resource resource = resource_of(ranking.signal);
  const std::vector<Candidate>& order = ranking.decision.considered;
  v1::Decision decision = messages::to_proto(ranking.decision);
  v1::RankReport report;
  report.mutable_order()->Swap(decision.mutable_considered());
  report.set_signal(std::string(to_string(ranking.signal)));
  report.set_resource(std::string(to_string(resource)));
  for (const auto& rule : policy::rules_for(resource))
    report.add_comparators(std::string(rule.name));
  report.set_fs_layout(std::string(to_string(ranking.layout.layout)));
  report.set_fs_layout_from(std::string(ranking.layout.from));
  for (std::size_t i = 0; i < order.size(); ++i)
    *report.add_pods() = ranked_pod(order, i, resource);
  if (const auto victim = ranking.decision.victim()) {
    *report.mutable_victim() = pod_name(*order[*victim].sample.workload.pod);
    *report.mutable_eviction() = decision.evictions(0);
  }
  if (decision.evidence_size() > 0) *report.mutable_evidence() = decision.evidence(0);
  for (const auto& [pod, reason] : ranking.pods.left_out) {
    auto* left_out = report.add_left_out();
    *left_out->mutable_pod() = pod_name(*pod);
    left_out->set_reason(std::string(to_string(reason)));
  }
  for (const intake::PodStatsEntry& each : ranking.pods.unmatched) {
    Pod pod;
    pod.uid = each.uid;
    pod.name = each.name;
    pod.pod_namespace = each.pod_namespace;
    *report.add_unmatched_statistics() = pod_name(pod);
  }
  fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
}

std::vector<std::string> describe_pod(const Workload& workload) {
  return {qualified_name(*workload.pod), std::string(to_string(policy::qos_class(*workload.pod)))};
}

void print_evidence(const Decision& decision) {
  if (decision.evidence.empty()) return;
  const Evidence& one = decision.evidence.front();
  const Resource resource = resource_of(one.threshold.signal);
  fmt::print("The summary has {} of {} available; the {} threshold is {}: {}.\n",
             tables::amount_text(resource, one.available),
             tables::amount_text(resource, one.capacity), one.threshold.hard() ? "hard" : "soft",
             one.limit.text(), one.met ? "met" : "not met");
}

void print_victim(const Decision& decision) {
  const auto victim = decision.victim();
  if (!victim) {
    fmt::print("\nNo pod may be evicted.\n");
    return;
  }
  const Eviction& eviction = decision.evictions.front();
  fmt::print("\nEvicted first: {}, grace {}{}\n  message: {}\n",
             qualified_name(*decision.considered[*victim].sample.workload.pod),
             forestall::to_string(eviction.grace),
             eviction.at_once ? " (the agent kills at once)" : "", eviction.message);
  for (const auto& [name, value] : eviction.annotations) fmt::print("  {}: {}\n", name, value);
}

void print_text(const RankedPods& ranking) {
  const Resource resource = resource_of(ranking.signal);
  const Decision& decision = ranking.decision;
  fmt::print("Order of eviction for {} ({})", to_string(ranking.signal), to_string(resource));
  if (filesystem_of(ranking.signal)) {
    fmt::print(", layout {} ({})", to_string(ranking.layout.layout),
               ranking.layout.from == "option" ? "as given" : ranking.layout.from);
  }
  fmt::print("\n");
  print_evidence(decision);
  fmt::print("\n");
  if (decision.considered.empty()) {
    fmt::print("  no pods to rank\n");
  } else {
    fmt::print("{}",
               tables::order_text(decision.considered, resource, {"pod", "QoS"}, describe_pod));
    print_victim(decision);
  }
  if (!ranking.pods.left_out.empty() || !ranking.pods.unmatched.empty()) fmt::print("\n");
  for (const auto& [pod, reason] : ranking.pods.left_out) {
    fmt::print("not ranked: {} ({})\n", qualified_name(*pod), to_string(reason));
  }
  for (const intake::PodStatsEntry& each : ranking.pods.unmatched) {
    fmt::print("statistics without a listed pod: {}/{} ({})\n", printable(each.pod_namespace),
               printable(each.name), printable(each.uid));
  }
}

}  // namespace

int rank_pods(const Options& options, const RankOptions& rank_options, Signal signal,
              std::optional<FilesystemLayout> layout) {
  if (rank_options.pods == "-" && rank_options.stats == "-") {
    return fail("rank", error("--pods and --stats cannot both be standard input"), kExitUsage);
  }
  std::vector<std::string> warnings;
  const auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", printable_lines(config.error().text()));
    return kExitUsage;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  auto pods = load_pods(rank_options.pods);
  if (!pods) return fail("rank", pods.error(), kExitUsage);
  const auto summary = load_stats(rank_options.stats);
  if (!summary) return fail("rank", summary.error(), kExitUsage);
  rank_listed_pods(*config, {signal, layout, options.output}, std::move(*pods), *summary);
  return kExitOk;
}

void rank_listed_pods(const Config& config, const RankPodsOptions& options,
                      std::vector<intake::ListedPod> pods, const intake::StatsSummary& summary) {
  const RankedPods ranking = rank_input(
      config, options.signal, choose_layout(options.layout, summary), std::move(pods), summary);
  if (options.output == OutputFormat::json) {
    print_json(ranking);
  } else {
    print_text(ranking);
  }
}

}  // namespace forestall::cli
