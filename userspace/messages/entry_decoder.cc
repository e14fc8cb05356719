// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/arena.h>

#include <utility>

#include "messages/convert_fields.h"
#include "messages/recording_entries.h"

namespace forestall::messages {
namespace {

// Enough for an evaluation of several hundred workloads: then an entry allocates only its model.
constexpr std::size_t kFirstBlock = std::size_t{128} << 10;

// Limit of subjects per key: an agent starts a new key after a minute, and a node has thousands at
// most.
constexpr std::size_t kSubjectsMax = std::size_t{1} << 20;
// Limit of their total size, 16 times the writer's queue: a few kilobytes of a file could
// decompress to a path of 16 MiB.
constexpr std::size_t kSubjectBytesMax = std::size_t{64} << 20;

google::protobuf::ArenaOptions in_block(std::vector<char>& block) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  return options;
}

Result<KeyEntry> from_proto(const v1::RecordingKey& message) {
  KeyEntry key;
  key.at = from_ns(message.at_ns());
  key.wall_time_ns = TRY(nanoseconds(message.wall_time()));
  key.config = TRY(inside("config", messages::from_proto(message.config())));
  key.state = TRY(inside("state", messages::from_proto(message.state())));
  return key;
}

MemoryPressure from_proto(const v1::NodePressure& message) {
  MemoryPressure pressure;
  pressure.at = from_ns(message.at_ns());
  if (message.has_some_ns()) pressure.some = Duration(message.some_ns());
  if (message.has_full_ns()) pressure.full = Duration(message.full_ns());
  if (message.has_scanned_pages()) pressure.scanned = message.scanned_pages();
  if (message.has_reclaimed_pages()) pressure.reclaimed = message.reclaimed_pages();
  if (message.has_stalls()) pressure.stalls = message.stalls();
  return pressure;
}

}  // namespace

struct EntryDecoder::Buffers {
  std::vector<char> block = std::vector<char>(kFirstBlock);
  google::protobuf::Arena arena{in_block(block)};
  // By number. All samples of a subject share its pod.
  std::vector<Workload> subjects;
  std::size_t subject_bytes = 0;

  Result<void> add_subject(const v1::Subject& message, std::size_t size) {
    if (message.number() != subjects.size()) {
      return error("number: " + std::to_string(message.number()) + " is not the next one, " +
                   std::to_string(subjects.size()));
    }
    if (subjects.size() == kSubjectsMax || size > kSubjectBytesMax - subject_bytes) {
      return error("the subjects exceed their limit");
    }
    subject_bytes += size;
    subjects.push_back(
        TRY(inside("workload", workload_from_proto(message.workload(), kDefaultPodsCgroup))));
    return {};
  }

  template <typename Numbers, typename Messages>
  Result<void> read_samples(const Numbers& numbers, const Messages& messages,
                            std::vector<WorkloadSample>& out) const {
    if (numbers.size() != messages.size()) {
      return error("subjects: their number differs from that of the workloads");
    }
    std::size_t copied = 0;
    for (const std::uint32_t number : numbers) {
      if (number >= subjects.size()) {
        return error("subjects: " + std::to_string(number) + " was not described");
      }
      copied += size_of_copy(subjects[number]);
      if (copied > kCopiedMax) return error("subjects: the samples exceed the limit of 256 MiB");
    }
    out.reserve(static_cast<std::size_t>(messages.size()));
    for (int i = 0; i < messages.size(); ++i) {
      WorkloadSample& sample = out.emplace_back();
      sample.workload = subjects[numbers.Get(i)];
      TRY(read_usage(messages.Get(i), sample));
    }
    return {};
  }

  Result<EvaluationEntry> read_evaluation(v1::EvaluationUnread& message) {
    EvaluationEntry evaluation;
    evaluation.number = message.number();
    Record& evaluated = evaluation.evaluated;
    evaluated.observation =
        TRY(inside("observation", without_workloads_from_proto(message.observation())));
    if (message.observation().workloads_read()) {
      evaluated.observation.workloads.emplace();
      TRY(read_samples(message.subjects(), message.observation().workloads(),
                       *evaluated.observation.workloads));
    }
    evaluated.stages = messages::from_proto(message.stages());
    evaluated.wall_time_ns = TRY(nanoseconds(message.wall_time()));
    if (message.has_prepared()) {
      evaluated.prepared =
          Prepared{Duration(message.prepared().age_ns()), message.prepared().workloads()};
    }
    evaluation.decision = message.decision();
    return evaluation;
  }
};

EntryDecoder::EntryDecoder() : buffers_(std::make_unique<Buffers>()) {}
EntryDecoder::~EntryDecoder() = default;
EntryDecoder::EntryDecoder(EntryDecoder&&) noexcept = default;
EntryDecoder& EntryDecoder::operator=(EntryDecoder&&) noexcept = default;

void EntryDecoder::forget() {
  buffers_->subjects.clear();
  buffers_->subject_bytes = 0;
}

Result<RecordingEntry> EntryDecoder::decode(std::string_view entry) {
  Buffers& own = *buffers_;
  own.arena.Reset();
  auto& message = *google::protobuf::Arena::CreateMessage<v1::RecordingEntryUnread>(&own.arena);
  if (!message.ParseFromArray(entry.data(), static_cast<int>(entry.size()))) {
    return error("not a recording entry");
  }
  switch (message.what_case()) {
    case v1::RecordingEntryUnread::kKey: {
      forget();
      return RecordingEntry(TRY(inside("key", from_proto(message.key()))));
    }
    case v1::RecordingEntryUnread::kSubject:
      TRY(inside("subject", own.add_subject(message.subject(), entry.size())));
      return RecordingEntry(SubjectEntry{});
    case v1::RecordingEntryUnread::kEvaluation:
      return RecordingEntry(
          TRY(inside("evaluation", own.read_evaluation(*message.mutable_evaluation()))));
    case v1::RecordingEntryUnread::kRecord: {
      const v1::RecordEntry& record = message.record();
      const bool refers = record.evaluation() != 0;
      auto read = refers ? without_evaluation_from_proto(record.record())
                         : messages::from_proto(record.record());
      return RecordingEntry(
          RecordedEntry{record.evaluation(), TRY(inside("record", std::move(read)))});
    }
    case v1::RecordingEntryUnread::kWorkloadSample: {
      WorkloadSampleEntry workload_sample;
      workload_sample.at = from_ns(message.workload_sample().at_ns());
      TRY(inside("workload_sample",
                 own.read_samples(message.workload_sample().subjects(),
                                  message.workload_sample().samples(), workload_sample.samples)));
      return RecordingEntry(std::move(workload_sample));
    }
    case v1::RecordingEntryUnread::kPressure:
      return RecordingEntry(PressureEntry{from_proto(message.pressure())});
    case v1::RecordingEntryUnread::WHAT_NOT_SET: break;
  }
  return RecordingEntry(UnknownEntry{});
}

Result<Decision> decode_decision(const EvaluationEntry& evaluation) {
  v1::EvaluationDecision message;
  const std::string_view bytes = evaluation.decision;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return error("not a decision");
  }
  return decision_from_proto(message, evaluation.evaluated.observation);
}

}  // namespace forestall::messages
