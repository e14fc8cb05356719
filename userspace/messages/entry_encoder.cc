// SPDX-License-Identifier: Apache-2.0
// Runs in the agent's loop, after the kill of the evaluation was started. Messages are filled in
// place and reused, so that an evaluation of known workloads allocates almost nothing.
#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "messages/convert_fields.h"
#include "messages/recording_entries.h"

namespace forestall::messages {
namespace {

// The outcome of a kill is recorded seconds after its evaluation, at worst thousands of evaluations
// later.
constexpr std::size_t kEvaluationsKept = 4096;

// Finds the samples of one observation.
class SampleIndex {
 public:
  void use(const Observation& observation) {
    samples_ = observation.workloads ? &*observation.workloads : nullptr;
    sorted_.clear();
    if (samples_ == nullptr) return;
    for (std::uint32_t i = 0; i < samples_->size(); ++i) {
      sorted_.emplace_back((*samples_)[i].workload.cgroup, i);
    }
    std::ranges::sort(sorted_);
  }

  // Its index plus one; 0: not one of them, or changed.
  [[nodiscard]] std::uint32_t find(const WorkloadSample& sample) const {
    const auto found = std::ranges::lower_bound(sorted_, sample.workload.cgroup, {},
                                                &std::pair<CgroupId, std::uint32_t>::first);
    if (found == sorted_.end() || found->first != sample.workload.cgroup) return 0;
    return (*samples_)[found->second] == sample ? found->second + 1 : 0;
  }

 private:
  const std::vector<WorkloadSample>* samples_ = nullptr;
  std::vector<std::pair<CgroupId, std::uint32_t>> sorted_;
};

void put_decision(const Decision& decision, const SampleIndex& samples,
                  v1::EvaluationDecision& out) {
  put_without_candidates(decision, *out.mutable_decision());
  for (const Candidate& candidate : decision.considered) {
    v1::Candidate& added = *out.mutable_decision()->add_considered();
    const std::uint32_t sample = samples.find(candidate.sample);
    out.add_samples(sample);
    if (sample == 0) *added.mutable_sample() = messages::to_proto(candidate.sample);
    put_rank(candidate, added);
  }
}

// An evaluation that a record can refer to.
struct KnownEvaluation {
  MonotonicTime at;
  WakeSource wake = WakeSource::recheck;
  Action action = Action::none;
  Reason reason = Reason::no_data;
  std::size_t considered = 0;
  std::uint64_t number = 0;

  [[nodiscard]] bool is_of(const Record& record) const {
    const Decision& decision = record.decision;
    return at == record.observation.at && wake == record.observation.wake.source &&
           action == decision.action && reason == decision.reason &&
           considered == decision.considered.size();
  }
};

}  // namespace

struct EntryEncoder::Buffers {
  struct Described {
    std::uint32_t number = 0;
    Workload workload;
  };

  v1::RecordingEntry entry;
  std::string bytes;
  std::vector<std::size_t> ends;  // end of each entry in `bytes`
  Entries entries;
  std::unordered_map<std::uint64_t, Described> subjects;  // by inode
  std::uint32_t next_subject = 0;
  std::vector<std::uint32_t> numbers;  // of the last describe(), one for each sample
  SampleIndex samples;
  std::deque<KnownEvaluation> evaluations;
  std::uint64_t last_evaluation = 0;

  void begin() {
    bytes.clear();
    ends.clear();
  }
  void end_entry() {
    entry.AppendToString(&bytes);
    ends.push_back(bytes.size());
  }
  const Entries& all() {
    entries.clear();
    std::size_t from = 0;
    for (const std::size_t end : ends) {
      entries.push_back(std::string_view(bytes).substr(from, end - from));
      from = end;
    }
    return entries;
  }
  [[nodiscard]] std::uint32_t subject_of(const Workload& workload);
  void describe(const std::vector<WorkloadSample>& described);
};

// A workload that has changed is described again, with a new number.
std::uint32_t EntryEncoder::Buffers::subject_of(const Workload& workload) {
  const auto [known, is_new] = subjects.try_emplace(workload.cgroup.inode);
  Described& described = known->second;
  if (!is_new && described.workload == workload) return described.number;
  described = {next_subject++, workload};
  entry.Clear();
  entry.mutable_subject()->set_number(described.number);
  *entry.mutable_subject()->mutable_workload() = to_proto(workload);
  end_entry();
  return described.number;
}

void EntryEncoder::Buffers::describe(const std::vector<WorkloadSample>& described) {
  numbers.clear();
  for (const WorkloadSample& sample : described) numbers.push_back(subject_of(sample.workload));
}

EntryEncoder::EntryEncoder() : buffers_(std::make_unique<Buffers>()) {}
EntryEncoder::~EntryEncoder() = default;

const EntryEncoder::Entries& EntryEncoder::key(MonotonicTime at, std::int64_t wall_time_ns,
                                               const Config& config, const PolicyState& state) {
  Buffers& own = *buffers_;
  own.begin();
  own.subjects.clear();
  own.next_subject = 0;
  own.entry.Clear();
  v1::RecordingKey& key = *own.entry.mutable_key();
  key.set_at_ns(to_ns(at));
  *key.mutable_wall_time() = to_timestamp(wall_time_ns);
  *key.mutable_config() = to_proto(config);
  *key.mutable_state() = to_proto(state);
  own.end_entry();
  return own.all();
}

const EntryEncoder::Entries& EntryEncoder::evaluation(const Record& evaluated) {
  Buffers& own = *buffers_;
  own.begin();
  const Observation& observation = evaluated.observation;
  if (observation.workloads) own.describe(*observation.workloads);
  own.entry.Clear();
  v1::Evaluation& evaluation = *own.entry.mutable_evaluation();
  evaluation.set_number(++own.last_evaluation);
  put_without_workloads(observation, *evaluation.mutable_observation());
  if (observation.workloads) {
    for (const WorkloadSample& sample : *observation.workloads) {
      put_usage(sample, *evaluation.mutable_observation()->add_workloads());
    }
    evaluation.mutable_subjects()->Assign(own.numbers.begin(), own.numbers.end());
  }
  own.samples.use(observation);
  put_decision(evaluated.decision, own.samples, *evaluation.mutable_decision());
  *evaluation.mutable_stages() = to_proto(evaluated.stages);
  *evaluation.mutable_wall_time() = to_timestamp(evaluated.wall_time_ns);
  if (evaluated.prepared) {
    evaluation.mutable_prepared()->set_age_ns(evaluated.prepared->age.count());
    evaluation.mutable_prepared()->set_workloads(evaluated.prepared->workloads);
  }
  own.end_entry();
  if (own.evaluations.size() == kEvaluationsKept) own.evaluations.pop_front();
  own.evaluations.push_back({observation.at, observation.wake.source, evaluated.decision.action,
                             evaluated.decision.reason, evaluated.decision.considered.size(),
                             own.last_evaluation});
  return own.all();
}

const EntryEncoder::Entries& EntryEncoder::record(const Record& record) {
  Buffers& own = *buffers_;
  own.begin();
  own.entry.Clear();
  v1::RecordEntry& out = *own.entry.mutable_record();
  const auto known =
      std::find_if(own.evaluations.rbegin(), own.evaluations.rend(),
                   [&](const KnownEvaluation& evaluation) { return evaluation.is_of(record); });
  if (known != own.evaluations.rend()) {
    out.set_evaluation(known->number);
    put_without_evaluation(record, *out.mutable_record());
  } else {
    *out.mutable_record() = to_proto(record);
  }
  own.end_entry();
  return own.all();
}

const EntryEncoder::Entries& EntryEncoder::workload_sample(
    MonotonicTime at, const std::vector<WorkloadSample>& samples) {
  Buffers& own = *buffers_;
  own.begin();
  own.describe(samples);
  own.entry.Clear();
  v1::WorkloadSampling& workload_sample = *own.entry.mutable_workload_sample();
  workload_sample.set_at_ns(to_ns(at));
  for (const WorkloadSample& sample : samples) put_usage(sample, *workload_sample.add_samples());
  workload_sample.mutable_subjects()->Assign(own.numbers.begin(), own.numbers.end());
  own.end_entry();
  return own.all();
}

const EntryEncoder::Entries& EntryEncoder::pressure(const MemoryPressure& pressure) {
  Buffers& own = *buffers_;
  own.begin();
  own.entry.Clear();
  v1::NodePressure& out = *own.entry.mutable_pressure();
  out.set_at_ns(to_ns(pressure.at));
  if (pressure.some) out.set_some_ns(pressure.some->count());
  if (pressure.full) out.set_full_ns(pressure.full->count());
  if (pressure.scanned) out.set_scanned_pages(*pressure.scanned);
  if (pressure.reclaimed) out.set_reclaimed_pages(*pressure.reclaimed);
  if (pressure.stalls) out.set_stalls(*pressure.stalls);
  own.end_entry();
  return own.all();
}

void encode_decision(const Decision& decision, const Observation& observation, std::string& out) {
  SampleIndex samples;
  samples.use(observation);
  v1::EvaluationDecision message;
  put_decision(decision, samples, message);
  message.SerializeToString(&out);
}

}  // namespace forestall::messages
