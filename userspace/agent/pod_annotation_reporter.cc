// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_annotation_reporter.h"

#include <utility>

#include "actuators/usage_meter.h"
#include "exports/log_line.h"
#include "policy/protection.h"
#include "sources/pod_annotations.h"

namespace forestall::agent {

void PodAnnotationReporter::report(const Workloads& workloads, const PodAnnotationPolicy& policy) {
  exports::AnnotationCounts counts;
  counts.usage = counts_.usage;
  std::set<std::string> present;
  std::size_t lines = 0;
  std::size_t found = 0;
  std::vector<PodAnnotationProblem> first;  // if none is left from `first_shown_` on
  for (const Workload* workload : workloads) {
    if (!workload->pod || workload->pod->annotations == PodAnnotations{}) continue;
    if (workload->protection == Protection::annotated) ++counts.annotated;
    if (workload->protection == Protection::none) {
      counts.preferred += workload->preference == Preference::prefer ? 1 : 0;
      counts.avoided += workload->preference == Preference::avoid ? 1 : 0;
    }
    auto problems = sources::annotation_facts(*workload->pod, policy).problems;
    if (problems.empty()) continue;
    present.insert(workload->pod->uid);
    log_problems(problems, workload->pod->uid, lines);
    for (PodAnnotationProblem& each : problems) {
      auto& shown = found++ < first_shown_ ? first : counts.problems;
      if (shown.size() < kShownMax) shown.push_back(std::move(each));
    }
  }
  if (counts.problems.empty()) {
    counts.problems = std::move(first);
    first_shown_ = 0;
  }
  counts.problems_left_out = found - counts.problems.size();
  if (lines > kLinesMax) {
    log_.write(exports::LogLevel::warning,
               exports::LogLine("pod-annotation").field("further_problems", lines - kLinesMax));
  }
  if (counts.annotated == 0) counts.usage.reset();
  counts_ = std::move(counts);
  reported_ = std::move(present);
}

void PodAnnotationReporter::show_next(const Workloads& workloads,
                                      const PodAnnotationPolicy& policy) {
  if (counts_.problems_left_out == 0) return;
  first_shown_ += kShownMax;
  report(workloads, policy);
}

void PodAnnotationReporter::log_problems(const std::vector<PodAnnotationProblem>& problems,
                                         const std::string& uid, std::size_t& lines) {
  if (reported_.contains(uid)) return;
  for (const PodAnnotationProblem& each : problems) {
    if (++lines > kLinesMax) continue;
    log_.write(exports::LogLevel::warning,
               exports::LogLine("pod-annotation")
                   .field("pod", each.pod)
                   .field("annotation", "forestall.dev/" + std::string(each.annotation))
                   .field("value", each.value)
                   .field("problem", "it has no effect: " + std::string(each.problem)));
  }
}

void PodAnnotationReporter::measure(const Workloads& workloads, std::optional<Bytes> capacity) {
  if (counts_.annotated == 0) {
    warned_ = false;
    return;
  }
  Bytes usage;
  std::size_t measured = 0;
  for (const Workload* workload : workloads) {
    // Without the cgroups above such a pod, which are protected with it and count its memory too.
    if (!workload->pod || workload->protection != Protection::annotated) continue;
    if (++measured > kMeasuredMax) break;
    const auto cgroup = tree_.open(workload->path);
    if (!cgroup.ok() || cgroup->id() != workload->cgroup) continue;  // removed
    const auto meter = actuators::UsageMeter::open(*cgroup, tree_.version());
    const auto used = meter.ok() ? meter->read() : Result<Bytes>(meter.error());
    if (used.ok()) usage = usage + *used;
  }
  counts_.usage = usage;
  const bool is_much = capacity && usage.count > capacity->count / kWarnedPart;
  if (std::exchange(warned_, is_much) || !is_much) return;
  log_.write(exports::LogLevel::warning,
             exports::LogLine("pod-annotation")
                 .field("protected", counts_.annotated)
                 .field("usage", usage)
                 .field("capacity", *capacity)
                 .field("problem",
                        "pods that annotations protect use more than half of the node's "
                        "memory: evictions of other pods may not suffice")
                 .field("remedy", "list fewer namespaces in podAnnotations.protected"));
}

}  // namespace forestall::agent
