// SPDX-License-Identifier: Apache-2.0
// What a recording says, in terms of the model: its facts, and the entries one by one. How it is
// said is forestall/v1/recording.proto; how that lies in a file is recording/format.h.
//
// Entries refer to earlier ones, so both sides remember: EntryEncoder what it has described since
// the last key, EntryDecoder what was described.
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

namespace forestall::api {

enum class Recorder : std::uint8_t {
  agent,    // a running agent: kills are real
  session,  // forestall record: nobody was signalled
};

// What all of a recording has in common.
struct RecordingFacts {
  std::string version;
  Recorder recorder = Recorder::agent;
  std::int32_t pid = 0;
  std::string node;
  std::string kernel;
  std::string boot_id;  // empty: unknown
  MonotonicTime began;
  std::int64_t began_wall_ns = 0;  // CLOCK_REALTIME at the same time
  Tier tier = Tier::none;
  std::vector<FeatureReport> features;
  std::string config_origin;

  friend bool operator==(const RecordingFacts&, const RecordingFacts&) = default;
};

// For the header of a file.
[[nodiscard]] std::string encode(const RecordingFacts& facts);
[[nodiscard]] Result<RecordingFacts> decode_facts(std::string_view bytes);

[[nodiscard]] v1::PolicyState to_proto(const PolicyState& state);
[[nodiscard]] Result<PolicyState> from_proto(const v1::PolicyState& message);

// ---- writing ----

// Thread rule: one thread. Keeps its buffers from entry to entry.
class EntryEncoder {
 public:
  // In the order they are to be given; views into the encoder, until the next call.
  using Entries = std::vector<std::string_view>;

  EntryEncoder();
  ~EntryEncoder();
  EntryEncoder(const EntryEncoder&) = delete;
  EntryEncoder& operator=(const EntryEncoder&) = delete;

  // From here on nothing refers to what was encoded before. `state`: before the next look.
  const Entries& key(MonotonicTime at, std::int64_t wall_time_ns, const Config& config,
                     const PolicyState& state);
  // A look, with the workloads it names for the first time before it. `looked.outcome`, `oom_kill`
  // and `sequence` do not count.
  const Entries& look(const Record& looked);
  // What is on record: by reference where it is about a look encoded of late, whole else.
  const Entries& record(const Record& record);
  // Workloads between decisions.
  const Entries& survey(MonotonicTime at, const std::vector<WorkloadSample>& samples);
  const Entries& pressure(const MemoryPressure& pressure);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// The bytes of LookDecision, as a look of `observation` has them: two decisions on it are the same
// if these are. `out` is replaced.
void encode_decision(const Decision& decision, const Observation& observation, std::string& out);

// ---- reading ----

struct KeyEntry {
  MonotonicTime at;
  std::int64_t wall_time_ns = 0;
  Config config;
  PolicyState state;
};

struct LookEntry {
  std::uint64_t number = 0;
  // All but the decision; `sequence`, `outcome` and `oom_kill` are not set.
  Record looked;
  // The decision, unread: for encode_decision() to be compared with, and for decode_decision().
  // Valid until the decoder's next call.
  std::string_view decision;
};

struct RecordedEntry {
  // Number of the look whose observation and decision are the record's, which then has neither but
  // the evictions that it is about; 0: it has its own.
  std::uint64_t look = 0;
  Record record;
};

struct SurveyEntry {
  MonotonicTime at;
  std::vector<WorkloadSample> samples;
};

struct PressureEntry {
  MemoryPressure pressure;
};

// A workload was described, for entries to come.
struct SubjectEntry {};

// A kind of entry that this version does not know.
struct UnknownEntry {};

using RecordingEntry = std::variant<UnknownEntry, SubjectEntry, KeyEntry, LookEntry, RecordedEntry,
                                    SurveyEntry, PressureEntry>;

[[nodiscard]] Result<Decision> decode_decision(const LookEntry& look);

// Thread rule: one thread.
class EntryDecoder {
 public:
  EntryDecoder();
  ~EntryDecoder();
  EntryDecoder(EntryDecoder&&) noexcept;
  EntryDecoder& operator=(EntryDecoder&&) noexcept;

  // Errors: the bytes are no entry; an entry refers to what was not described.
  [[nodiscard]] Result<RecordingEntry> decode(std::string_view entry);
  // Forgets what was described: after a loss, nothing can be trusted to be what is referred to.
  void forget();

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace forestall::api
