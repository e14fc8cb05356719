// SPDX-License-Identifier: Apache-2.0
#include "agent/recorder.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "agent/wall_time.h"
#include "base/clock.h"

namespace forestall::agent {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Time between two surveys, as a multiple of the length of one.
constexpr int kSurveyBudget = 1000;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

api::RecordingFacts recording_facts(const Host& host, api::Recorder recorder,
                                    const std::string& config_origin) {
  utsname names{};
  ::uname(&names);
  api::RecordingFacts facts;
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
  return facts;
}

struct Recorder::Session {
  std::string path;
  std::unique_ptr<recording::Writer> writer;
  // Made by the loop, with the first pass.
  std::unique_ptr<api::EntryEncoder> encoder;
  bool broken = true;  // entries cannot refer to earlier ones: a key comes first
  std::uint64_t reloads = 0;
  int told = 0;               // errno of the trouble that was logged
  std::uint64_t counted = 0;  // lost entries among those of all recordings
  Duration survey_interval{0};
  MonotonicTime survey_due;
  MonotonicTime pressure_due;

  // `flags` are those of the first entry, the last one is durable if wanted.
  bool give(const api::EntryEncoder::Entries& entries, MonotonicTime at, std::uint32_t flags,
            bool durable) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::uint32_t own = i == 0 ? flags : 0;
      if (durable && i + 1 == entries.size()) own |= recording::kEntryDurable;
      if (writer->give(entries[i], at, own)) continue;
      writer->lose(entries.size() - i - 1);
      broken = true;
      return false;
    }
    return true;
  }
};

Recorder::Recorder(exports::Log& log, exports::DropCounts* drops) : log_(log), drops_(drops) {}

Recorder::~Recorder() {
  if (session_ != nullptr) (void)stop();
}

Result<void> Recorder::start(const recording::Target& target, const api::RecordingFacts& facts,
                             Duration survey_interval, Opening opening) {
  {
    const std::lock_guard lock(mutex_);
    if (session_ != nullptr) return Error{EALREADY, "a recording is being made"};
  }
  recording::Writer::Options options;
  options.target = target;
  options.facts = api::encode(facts);
  options.opened_by_thread = opening == Opening::by_thread;
  auto session = std::make_unique<Session>();
  session->path = target.path;
  session->survey_interval = survey_interval;
  session->writer = TRY(recording::Writer::create(std::move(options)));
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr) return Error{EALREADY, "a recording is being made"};
  missed_ = 0;
  session_ = std::move(session);
  return {};
}

Result<recording::Totals> Recorder::stop() {
  std::unique_ptr<recording::Writer> writer;
  {
    const std::lock_guard lock(mutex_);
    if (session_ == nullptr) return Error{ENODATA, "no recording is being made"};
    writer = std::move(session_->writer);
    retired_.push_back(std::move(session_));
  }
  return writer->close();
}

std::optional<recording::Totals> Recorder::totals() const {
  const std::lock_guard lock(mutex_);
  if (session_ == nullptr) return std::nullopt;
  return session_->writer->totals();
}

std::unique_lock<std::mutex> Recorder::try_lock(std::uint64_t entries) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) missed_ += entries;
  return lock;
}

void Recorder::passed(const exports::Pass& pass) {
  const auto lock = try_lock(1);
  if (!lock) return;
  retired_.clear();
  if (session_ == nullptr) return;
  Session& session = *session_;
  tell_trouble(session);
  count_lost(session);
  if (session.encoder == nullptr) session.encoder = std::make_unique<api::EntryEncoder>();
  if (const std::uint64_t missed = missed_.exchange(0); missed > 0) {
    session.writer->lose(missed);
    session.broken = true;
  }
  const Record& record = pass.record;
  const MonotonicTime at = record.observation.at;
  const bool wished = session.writer->take_key_wish();
  if (session.broken || wished || session.reloads != pass.reloads) {
    session.broken = false;
    session.reloads = pass.reloads;
    const auto& key = session.encoder->key(at, record.wall_time_ns, pass.config, pass.before);
    if (!session.give(key, at, recording::kEntryKey, false)) {
      session.writer->lose(1);  // the evaluation
      return;
    }
  }
  const bool kills = record.decision.action == Action::kill;
  if (session.give(session.encoder->look(record), at, 0, kills)) tell_pressure(session, at);
}

void Recorder::tell_pressure(Session& session, MonotonicTime at) {
  if (!gauge_ || at < session.pressure_due) return;
  session.pressure_due = at + kPressureEvery;
  session.give(session.encoder->pressure(gauge_(at)), at, 0, false);
}

void Recorder::write(const Record& record) {
  const auto lock = try_lock(1);
  if (!lock || session_ == nullptr) return;
  Session& session = *session_;
  // Before the first evaluation, or after a loss, a record would come before the key.
  if (session.encoder == nullptr || session.broken) return session.writer->lose(1);
  const bool durable = record.oom_kill || record.outcome;
  session.give(session.encoder->record(record), record.observation.at, 0, durable);
}

bool Recorder::wants_survey(MonotonicTime now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // An evaluation that could not be recorded leaves no room for a survey.
  return lock && session_ != nullptr && !session_->broken && session_->survey_due <= now;
}

void Recorder::surveyed(const exports::Survey& survey) {
  const auto lock = try_lock(1);
  if (!lock || session_ == nullptr || session_->broken) return;
  Session& session = *session_;
  if (survey.at < session.survey_due) return;  // made for another recording
  session.survey_due = survey.at + std::max(session.survey_interval, survey.took * kSurveyBudget);
  session.give(session.encoder->survey(survey.at, survey.workloads), survey.at, 0, false);
}

void Recorder::count_lost(Session& session) {
  const std::uint64_t lost = session.writer->totals().lost_entries;
  if (drops_ != nullptr) drops_->recording_entries += lost - session.counted;
  session.counted = lost;
}

// Logs each kind of trouble once, and its end.
void Recorder::tell_trouble(Session& session) {
  const int trouble = session.writer->trouble();
  if (trouble == session.told) return;
  session.told = trouble;
  LogLine line("recording");
  if (trouble == 0) {
    line.field("state", "goes on").field("lost", session.writer->totals().lost_entries);
  } else {
    line.field("problem", Error{trouble, session.path}.text()).field("state", "waits");
  }
  log_.write(trouble == 0 ? LogLevel::info : LogLevel::error, line);
}

}  // namespace forestall::agent
