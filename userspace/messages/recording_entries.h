// SPDX-License-Identifier: Apache-2.0
// The contents of a recording as model types: its facts and its entries.
// forestall/v1/recording.proto defines the messages, recording/format.h the file format.
//
// Entries refer to earlier ones, so both EntryEncoder and EntryDecoder keep the workloads described
// since the last key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "forestall/v1/recording.pb.h"
#include "model/config.h"
#include "model/feature.h"
#include "model/policy_state.h"
#include "model/pressure.h"
#include "model/record.h"

namespace forestall::messages {

enum class RecordedBy : std::uint8_t {
  agent,    // a running agent: kills are real
  session,  // forestall record: no process was signalled
};

// Facts that apply to the whole recording.
struct RecordingFacts {
  std::string version;
  RecordedBy recorder = RecordedBy::agent;
  std::int32_t pid = 0;
  std::string node;
  std::string kernel;
  std::string boot_id;  // empty: unknown
  MonotonicTime began;
  std::int64_t began_wall_ns = 0;  // CLOCK_REALTIME at the same time
  Tier tier = Tier::none;
  std::vector<FeatureReport> features;
  std::string config_origin;
  // The longest time between two evaluations of a running agent. 0: unknown.
  Duration interval{0};

  friend bool operator==(const RecordingFacts&, const RecordingFacts&) = default;
};

[[nodiscard]] v1::RecordingFacts to_proto(const RecordingFacts& facts);
// For the header of a file.
[[nodiscard]] std::string encode(const RecordingFacts& facts);
[[nodiscard]] Result<RecordingFacts> decode_facts(std::string_view bytes);

[[nodiscard]] v1::PolicyState to_proto(const PolicyState& state);
[[nodiscard]] Result<PolicyState> from_proto(const v1::PolicyState& message);

// ---- writing ----

// Thread rule: one thread. Keeps its buffers from entry to entry.
class EntryEncoder {
 public:
  // In the order in which they must be written; views into the encoder, valid until the next call.
  using Entries = std::vector<std::string_view>;

  EntryEncoder();
  ~EntryEncoder();
  EntryEncoder(const EntryEncoder&) = delete;
  EntryEncoder& operator=(const EntryEncoder&) = delete;

  // Starts a new key: later entries do not refer to earlier ones. `state`: before the next
  // evaluation.
  const Entries& key(MonotonicTime at, std::int64_t wall_time_ns, const Config& config,
                     const PolicyState& state);
  // An evaluation, preceded by the workloads that it refers to for the first time. Ignores
  // `evaluated.outcome`, `oom_kill` and `sequence`.
  const Entries& evaluation(const Record& evaluated);
  // A record: by reference if its evaluation was encoded recently, else complete.
  const Entries& record(const Record& record);
  // Workloads between decisions.
  const Entries& workload_sample(MonotonicTime at, const std::vector<WorkloadSample>& samples);
  const Entries& pressure(const MemoryPressure& pressure);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// The bytes of the EvaluationDecision in an evaluation of `observation`: two decisions on it are
// equal if these bytes are. Replaces `out`.
void encode_decision(const Decision& decision, const Observation& observation, std::string& out);

// ---- reading ----

struct KeyEntry {
  MonotonicTime at;
  std::int64_t wall_time_ns = 0;
  Config config;
  PolicyState state;
};

struct EvaluationEntry {
  std::uint64_t number = 0;
  // Everything but the decision; `sequence`, `outcome` and `oom_kill` are not set.
  Record evaluated;
  // The decision, unparsed: to compare with encode_decision(), or for decode_decision(). Valid
  // until the next call of the decoder.
  std::string_view decision;
};

struct RecordedEntry {
  // Number of the evaluation with the observation and decision of this record; the record then
  // contains only its evictions. 0: the record contains both.
  std::uint64_t evaluation = 0;
  Record record;
};

struct WorkloadSampleEntry {
  MonotonicTime at;
  std::vector<WorkloadSample> samples;
};

struct PressureEntry {
  MemoryPressure pressure;
};

// A description of a workload, for later entries.
struct SubjectEntry {};

// A kind of entry that this version does not support.
struct UnknownEntry {};

using RecordingEntry = std::variant<UnknownEntry, SubjectEntry, KeyEntry, EvaluationEntry,
                                    RecordedEntry, WorkloadSampleEntry, PressureEntry>;

[[nodiscard]] Result<Decision> decode_decision(const EvaluationEntry& evaluation);

// Thread rule: one thread.
class EntryDecoder {
 public:
  EntryDecoder();
  ~EntryDecoder();
  EntryDecoder(EntryDecoder&&) noexcept;
  EntryDecoder& operator=(EntryDecoder&&) noexcept;

  // Errors: the bytes are not an entry; the entry refers to a workload that was not described.
  [[nodiscard]] Result<RecordingEntry> decode(std::string_view entry);
  // Forgets all descriptions: after a loss, references may be wrong.
  void forget();

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace forestall::messages
