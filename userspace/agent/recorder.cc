// SPDX-License-Identifier: Apache-2.0
#include "agent/recorder.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "agent/wall_time.h"
#include "base/clock.h"

namespace forestall::agent {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Time between two workload_samples, as a multiple of the length of one.
constexpr int kWorkloadSampleBudget = 50;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

messages::RecordingFacts recording_facts(const ProbedHost& host, messages::RecordedBy recorder,
                                         const std::string& config_origin) {
  utsname names{};
  ::uname(&names);
  messages::RecordingFacts facts;
  facts.version = FORESTALL_VERSION;
  facts.recorder = recorder;
  facts.pid = ::getpid();
  facts.node = names.nodename;
  facts.kernel = host.kernel_release;
  facts.boot_id = boot_id();
  facts.began = SystemClock().now();
  facts.began_wall_ns = wall_time_ns();
  facts.tier = host.tier();
  facts.features = host.reports;
  facts.config_origin = config_origin;
  facts.interval = Recorder::kInterval;
  return facts;
}

struct Recorder::Session {
  std::string path;
  std::unique_ptr<recording::Writer> writer;
  // Made by the loop, with the first pass.
  std::unique_ptr<messages::EntryEncoder> encoder;
  bool broken = true;  // entries cannot refer to earlier ones: a key comes first
  std::uint64_t reloads = 0;
  int reported = 0;           // errno of the trouble that was logged
  std::uint64_t counted = 0;  // lost entries among those of all recordings
  Duration workload_sample_interval{0};
  MonotonicTime workload_sample_due;
  // The evaluation at whose end the loop samples them.
  std::optional<MonotonicTime> workload_sample_wanted;
  MonotonicTime pressure_due;

  struct EntryFlags {
    std::uint32_t first = 0;  // of the first entry
    bool durable = false;     // the last entry is
  };
  bool give(const messages::EntryEncoder::Entries& entries, MonotonicTime at,
            const EntryFlags& flags) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::uint32_t own = i == 0 ? flags.first : 0;
      if (flags.durable && i + 1 == entries.size()) own |= recording::kEntryDurable;
      if (writer->give(entries[i], at, own)) continue;
      writer->lose(entries.size() - i - 1);
      broken = true;
      return false;
    }
    return true;
  }
};

Recorder::Recorder(exports::Log& log, exports::DropCounts& drops, PressureGauge gauge)
    : log_(log), drops_(drops), gauge_(std::move(gauge)) {}

Recorder::~Recorder() {
  if (session_ != nullptr) (void)stop();
}

Result<void> Recorder::start(const recording::Target& target, const messages::RecordingFacts& facts,
                             Duration workload_sample_interval, Opening opening) {
  {
    const std::lock_guard lock(mutex_);
    if (session_ != nullptr) return Error{EALREADY, "a recording is being made"};
  }
  recording::Writer::Options options;
  options.target = target;
  options.facts = messages::encode(facts);
  options.opened_by_thread = opening == Opening::by_thread;
  auto session = std::make_unique<Session>();
  session->path = target.path;
  session->workload_sample_interval = workload_sample_interval;
  session->writer = TRY(recording::Writer::create(std::move(options)));
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr) return Error{EALREADY, "a recording is being made"};
  missed_ = 0;
  session_ = std::move(session);
  recording_ = true;
  return {};
}

Result<recording::WriterTotals> Recorder::stop() {
  std::unique_ptr<recording::Writer> writer;
  {
    const std::lock_guard lock(mutex_);
    if (session_ == nullptr) return Error{ENODATA, "no recording is being made"};
    recording_ = false;
    writer = std::move(session_->writer);
    retired_.push_back(std::move(session_));
  }
  return writer->close();
}

std::optional<recording::WriterTotals> Recorder::totals() const {
  const std::lock_guard lock(mutex_);
  if (session_ == nullptr) return std::nullopt;
  return session_->writer->totals();
}

std::unique_lock<std::mutex> Recorder::try_lock(std::uint64_t entries) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) missed_ += entries;
  return lock;
}

void Recorder::passed(const exports::PolicyPass& pass) {
  const auto lock = try_lock(1);
  if (!lock) return;
  retired_.clear();
  if (session_ == nullptr) return;
  Session& session = *session_;
  report_problem(session);
  count_lost(session);
  if (session.encoder == nullptr) session.encoder = std::make_unique<messages::EntryEncoder>();
  if (const std::uint64_t missed = missed_.exchange(0); missed > 0) {
    session.writer->lose(missed);
    session.broken = true;
  }
  const Record& record = pass.record;
  const MonotonicTime at = record.observation.at;
  const bool requested = session.writer->take_key_request();
  if (session.broken || requested || session.reloads != pass.reloads) {
    session.broken = false;
    session.reloads = pass.reloads;
    const auto& key = session.encoder->key(at, record.wall_time_ns, pass.config, pass.before);
    if (!session.give(key, at, {.first = recording::kEntryKey})) {
      session.writer->lose(1);  // the evaluation
      return;
    }
  }
  const bool kills = record.decision.action == Action::kill;
  if (session.give(session.encoder->evaluation(record), at, {.durable = kills}))
    report_pressure(session, at);
}

void Recorder::report_pressure(Session& session, MonotonicTime at) {
  if (at < session.pressure_due) return;
  session.pressure_due = at + kPressureEvery;
  session.give(session.encoder->pressure(gauge_(at)), at, {});
}

void Recorder::write(const Record& record) {
  const auto lock = try_lock(1);
  if (!lock || session_ == nullptr) return;
  Session& session = *session_;
  // Before the first evaluation, or after a loss, a record would come before the key.
  if (session.encoder == nullptr || session.broken) return session.writer->lose(1);
  const bool durable = record.oom_kill || record.outcome;
  session.give(session.encoder->record(record), record.observation.at, {.durable = durable});
}

bool Recorder::needs_workload_sample(MonotonicTime now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // An evaluation that could not be recorded leaves no room for a sampling of the workloads.
  const bool wanted =
      lock && session_ != nullptr && !session_->broken && session_->workload_sample_due <= now;
  if (wanted) session_->workload_sample_wanted = now;
  return wanted;
}

void Recorder::sampled(const exports::WorkloadSampling& workload_sample) {
  const auto lock = try_lock(1);
  if (!lock || session_ == nullptr || session_->broken) return;
  Session& session = *session_;
  if (workload_sample.at < session.workload_sample_due) return;  // made for another recording
  // From the evaluation on, and a little earlier: the next one takes a little more or less time.
  const MonotonicTime from = session.workload_sample_wanted.value_or(workload_sample.at);
  session.workload_sample_wanted.reset();
  session.workload_sample_due =
      from + std::max(session.workload_sample_interval - session.workload_sample_interval / 8,
                      workload_sample.took * kWorkloadSampleBudget);
  session.give(session.encoder->workload_sample(workload_sample.at, workload_sample.workloads),
               workload_sample.at, {});
}

void Recorder::count_lost(Session& session) {
  const std::uint64_t lost = session.writer->totals().lost_entries;
  drops_.recording_entries += lost - session.counted;
  session.counted = lost;
}

// Logs each problem of the writer once, and its end.
void Recorder::report_problem(Session& session) {
  const int trouble = session.writer->trouble();
  if (trouble == session.reported) return;
  session.reported = trouble;
  LogLine line("recording");
  if (trouble == 0) {
    line.field("state", "recording").field("lost", session.writer->totals().lost_entries);
  } else {
    // EFBIG: a single file has reached its limit.
    line.field("problem", Error{trouble, session.path}.text())
        .field("state", trouble == EFBIG ? "at its limit" : "waits");
  }
  log_.write(trouble == 0 ? LogLevel::info : LogLevel::error, line);
}

}  // namespace forestall::agent
