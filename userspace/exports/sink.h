// SPDX-License-Identifier: Apache-2.0
// What the loop hands out: records, a tick after each evaluation, and what a replay needs. The loop
// reaches the receivers through these interfaces only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/next_victim.h"
#include "model/pod_annotations.h"
#include "model/policy_state.h"
#include "model/record.h"

namespace forestall::exports {

// What annotations forestall.dev/... of pods do on this node.
struct AnnotationCounts {
  static constexpr std::size_t kProblemsMax = 16;

  std::size_t annotated = 0;   // protected by one
  std::optional<Bytes> usage;  // of these; nullopt: not read yet
  std::size_t preferred = 0;
  std::size_t avoided = 0;
  std::vector<PodAnnotationProblem> problems = {};
  std::size_t problems_left_out = 0;

  friend bool operator==(const AnnotationCounts&, const AnnotationCounts&) = default;
};

// Where the facts of the known pods come from: how far decisions rest on inference.
struct PodFactCounts {
  std::size_t known = 0;            // declared by Kubernetes or an operator
  std::size_t inferred = 0;         // inferred from the node, the priority unknown
  std::size_t may_be_critical = 0;  // of those: protected, because they may be critical
  AnnotationCounts annotations = {};

  friend bool operator==(const PodFactCounts&, const PodFactCounts&) = default;
};

// One evaluation, recorded or not: most of them repeat the last one.
struct Evaluation {
  const Observation& observation;
  const Decision& decision;
  MonotonicTime next;  // when the next evaluation is due at the latest
  PodFactCounts pods = {};
};

// One pass of the policy: its input, its state and its answer. With all passes each answer can be
// computed again.
struct PolicyPass {
  const Config& config;
  std::uint64_t reloads = 0;  // how often the configuration was replaced since the start
  const PolicyState& before;  // the policy's state before the pass
  const Record& record;       // observation, decision, stages and time; no sequence, no outcome
};

// All workloads between decisions, and how long reading them took.
struct WorkloadSampling {
  MonotonicTime at;
  Duration took{0};
  const std::vector<WorkloadSample>& workloads;
};

// Thread rule for all three: called from the loop's thread, after the kill of the record was begun.
// They must not block. What cannot be delivered is dropped and counted.

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void write(const Record& record) = 0;
};

// A tick: each evaluation that read all of the node, before its record if there is one.
class EvaluationListener {
 public:
  virtual ~EvaluationListener() = default;
  virtual void evaluated(const Evaluation& evaluation) = 0;
  // One for each subject near a hard memory threshold, the nearest first; after each evaluation,
  // and when the candidates were ranked.
  virtual void pre_ranked(std::span<const NextVictim>) {}
};

// What a replay needs.
class PassListener {
 public:
  virtual ~PassListener() = default;
  // Every pass whose answer counts, before evaluated(). If `record.prepared` is set, the policy's
  // state does not change with it.
  virtual void passed(const PolicyPass& pass) = 0;
  // How often this listener needs a pass, whatever happens; nullopt: only when there is a reason.
  [[nodiscard]] virtual std::optional<Duration> pass_interval() const { return std::nullopt; }
  // Whether to sample all workloads now, decision or not. Called after each pass without a kill;
  // the cost is WorkloadSampling::took.
  [[nodiscard]] virtual bool needs_workload_sample(MonotonicTime) { return false; }
  virtual void sampled(const WorkloadSampling&) {}
};

}  // namespace forestall::exports
