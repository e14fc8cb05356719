// SPDX-License-Identifier: Apache-2.0
#include "daemon/live_picture.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "agent/wall_time.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "page/report_page.h"
#include "policy/step.h"

namespace forestall::daemon {
namespace {

constexpr std::size_t kWaitingMax = 16;
constexpr Duration kRefreshEvery = std::chrono::seconds(10);
constexpr int kWatchingNice = 10;
// Clocks drift by microseconds from one evaluation to the next; more means that one was set.
constexpr std::int64_t kClockSetNs = 1'000'000'000;

std::string event_of(const internal::Picture& picture) {
  return "event: picture\ndata: " + messages::to_json(picture, messages::JsonStyle::line) + "\n\n";
}

// The configuration without what only the loop's observer does.
Config watching(const Config& config, bool workloads) {
  Config own = config;
  own.ranking = Ranking::kubelet;  // no process is scored for a client
  own.filesystems.runtime.clear();
  if (workloads) return own;
  own.pods = false;
  own.workloads.clear();
  return own;
}

}  // namespace

LivePicture::LivePicture(const kernel::CgroupTree& tree, const Clock& clock,
                         const service::AgentFacts& facts)
    : tree_(tree), clock_(clock), builder_(picture::Bounds::of_agent()) {
  internal::PictureOrigin& origin = builder_.origin();
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) origin.set_node(name.data());
  origin.set_kernel(facts.kernel);
  origin.set_version(facts.version);
  origin.set_recorder(v1::RecordingFacts::AGENT);
  origin.set_tier(messages::to_proto(facts.tier));
  origin.set_config_origin(facts.config_origin);
  builder_.anchor(clock.now(), agent::wall_time_ns(), /*new_run=*/true);
}

void LivePicture::passed(const exports::PolicyPass& pass) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  if (config_ == nullptr || reloads_ != pass.reloads) {
    config_ = std::make_shared<const Config>(pass.config);
    reloads_ = pass.reloads;
    builder_.set_dry_run(pass.config.dry_run);
  }
  anchor(pass.record.observation.at, pass.record.wall_time_ns);
  builder_.evaluation(0, pass.record);
  take_waiting();
}

// The wall time is that of the decision, a little after the observation.
void LivePicture::anchor(MonotonicTime at, std::int64_t wall_time_ns) {
  if (std::abs(builder_.drift_ns(at, wall_time_ns)) > kClockSetNs) {
    builder_.anchor(at, wall_time_ns, /*new_run=*/false);
  }
}

void LivePicture::write(const Record& record) {
  waiting_.push_back(record);
  if (waiting_.size() > kWaitingMax) waiting_.pop_front();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) take_waiting();
}

void LivePicture::take_waiting() {
  for (const Record& each : waiting_) builder_.record(0, each);
  waiting_.clear();
}

void LivePicture::sampled(const exports::WorkloadSampling& workload_sample) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) builder_.workload_sample(workload_sample.at, workload_sample.workloads);
}

std::string LivePicture::json() {
  picture::Cursor all;
  internal::Picture picture;
  {
    const std::lock_guard lock(mutex_);
    picture = builder_.since(all);
  }
  return messages::to_json(picture, messages::JsonStyle::line);
}

std::shared_ptr<void> LivePicture::turn() const {
  return turns_.use_count() > kUnreadMax ? nullptr : turns_;
}

void LivePicture::begin() {
  // Of this thread only (setpriority(2) with a thread's id): the HTTP server's keeps its priority.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kWatchingNice);
  pressure_.emplace();
  cursor_ = {};
}

void LivePicture::end() {
  observer_.reset();
  watched_.reset();
  pressure_.reset();
}

void LivePicture::make_observer() {
  for (const bool workloads : {true, false}) {
    auto made = sources::Observer::create(tree_, watching(*watched_, workloads));
    observer_ = made ? std::move(*made) : nullptr;
    if (observer_ == nullptr) return;
    observer_->refresh();
    if (observer_->workload_count() <= kWorkloadsMax) return;
  }
}

// Observes as the loop would, and does not pass it to the loop.
void LivePicture::watch(MonotonicTime now) {
  std::shared_ptr<const Config> config;
  {
    const std::lock_guard lock(mutex_);
    config = config_;
  }
  if (config == nullptr) return;
  const bool due = now - refreshed_at_ >= kRefreshEvery;
  if (watched_ != config || (due && observer_ == nullptr)) {
    watched_ = config;
    make_observer();
    refreshed_at_ = now;
  } else if (due) {
    observer_->refresh();
    refreshed_at_ = now;
    // There may be more workloads than when it was made.
    if (observer_->workload_count() > kWorkloadsMax) make_observer();
  }
  const MemoryPressure pressure = pressure_->read(now);
  Record seen;
  if (observer_ != nullptr) {
    const Wake wake{WakeSource::command, now, {}, {}};
    seen.observation = observer_->sample_node(wake, now);
    observer_->add_workloads(seen.observation, "", sources::kUnscored);
    seen.decision = policy::step(*watched_, {}, seen.observation).decision;
  }
  const std::lock_guard lock(mutex_);
  builder_.pressure(pressure);
  if (observer_ == nullptr) return;
  builder_.readings(seen.observation.at, seen.decision.evidence);
  if (seen.observation.workloads)
    builder_.workload_sample(seen.observation.at, *seen.observation.workloads);
}

exports::LiveFrames::PageUpdate LivePicture::frame(bool with_whole) {
  watch(clock_.now());
  internal::Picture next;
  internal::Picture whole;
  {
    const std::lock_guard lock(mutex_);
    next = builder_.since(cursor_);
    picture::Cursor all;
    if (with_whole) whole = builder_.since(all);
  }
  return {event_of(next), with_whole ? event_of(whole) : std::string()};
}

namespace {

using exports::HttpAnswer;
using exports::HttpRequest;

constexpr const char* kPlainType = "text/plain; charset=utf-8";
constexpr const char* kJsonType = "application/json";

std::string protecting_fields() {
  return "Content-Security-Policy: " + std::string(page::live_policy()) +
         "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
         "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
         "Cache-Control: no-store\r\n";
}

HttpAnswer status_page(LivePicture& picture, exports::LiveStreams& streams,
                       const HttpRequest& request) {
  const std::string_view path = request.path.substr(1);
  const auto assets = page::assets();
  const auto asset = std::ranges::find(assets, path, &page::Asset::path);
  const bool known = asset != assets.end() || path == "picture" || path == "live";
  if (!known) return {404, kPlainType, "no such page\n"};
  if (!request.from_here || !exports::is_own_name(request.host)) {
    return {403, kPlainType,
            "the status page is served to this host only: use its loopback address\n"};
  }
  if (asset != assets.end()) {
    return {200, std::string(asset->type), std::string(asset->text), protecting_fields()};
  }
  if (path == "picture") {
    auto turn = picture.turn();
    if (!turn)
      return {503, kPlainType, "too many pictures are being read; try again\n",
              protecting_fields()};
    return {200, kJsonType, picture.json(), protecting_fields(), nullptr, std::move(turn)};
  }
  if (streams.full())
    return {503, kPlainType, "too many clients follow already\n", protecting_fields()};
  HttpAnswer answer{200, "text/event-stream", "", protecting_fields()};
  answer.follow = [&streams](UniqueFd client) { streams.add(std::move(client)); };
  return answer;
}

}  // namespace

exports::HttpPages status_pages(LivePicture& picture, exports::LiveStreams& streams) {
  return [&picture, &streams](const HttpRequest& request) {
    return status_page(picture, streams, request);
  };
}

}  // namespace forestall::daemon
