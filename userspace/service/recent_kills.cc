// SPDX-License-Identifier: Apache-2.0
#include "service/recent_kills.h"

#include <algorithm>
#include <utility>

#include "forestall/v1/service.pb.h"

namespace forestall::service {
namespace {

bool is_kill(const v1::Record& record) {
  if (record.has_oom_kill()) return false;
  if (record.has_outcome()) {
    return !record.outcome().dry_run() && record.outcome().has_signalled_ns();
  }
  return record.has_begun() && !record.begun().dry_run() &&
         record.begun().state() != v1::KillProgress::FAILED;
}

// Without what only explains the choice: a record of a thousand candidates takes half a megabyte.
v1::Record shortened(const v1::Record& record) {
  v1::Record kept = record;
  kept.clear_observation();
  v1::Decision& decision = *kept.mutable_decision();
  decision.clear_considered();
  decision.clear_victim();
  for (v1::Eviction& eviction : *decision.mutable_evictions()) {
    const auto& all = record.decision().considered();
    if (eviction.candidate() >= static_cast<std::uint32_t>(all.size())) continue;
    *decision.add_considered() = all[static_cast<int>(eviction.candidate())];
    eviction.set_candidate(static_cast<std::uint32_t>(decision.considered_size() - 1));
  }
  return kept;
}

}  // namespace

void RecentKills::add(const v1::Record& record, MonotonicTime now) {
  expire(now);
  if (!is_kill(record)) return;
  const auto same = std::ranges::find(kills_, record.sequence(), &Kept::sequence);
  if (same != kills_.end()) {
    bytes_ -= same->frame->size();
    kills_.erase(same);
  }
  v1::WatchRecordsResponse response;
  *response.mutable_record() = shortened(record);
  kills_.push_back({record.sequence(), now, wire::make_frame(response.SerializeAsString())});
  bytes_ += kills_.back().frame->size();
  while (!kills_.empty() && (kills_.size() > kMax || bytes_ > kBytesMax)) {
    bytes_ -= kills_.front().frame->size();
    kills_.pop_front();
  }
}

std::deque<wire::GrpcFrame> RecentKills::since(Duration longest, MonotonicTime now) const {
  std::deque<wire::GrpcFrame> frames;
  for (const Kept& each : kills_) {
    if (now - each.at <= std::min(longest, kLongest)) frames.push_back(each.frame);
  }
  return frames;
}

void RecentKills::expire(MonotonicTime now) {
  while (!kills_.empty() && now - kills_.front().at > kLongest) {
    bytes_ -= kills_.front().frame->size();
    kills_.pop_front();
  }
}

}  // namespace forestall::service
