// SPDX-License-Identifier: Apache-2.0
// The running agent's picture: a bounded history of what its loop looked at anyway, and, for as
// long as somebody watches, the node and its workloads each second.
//
// The loop only adds to it, under a lock it never waits for. What somebody watching costs is paid
// by the thread that serves him (exports/live_streams.h): it reads with an observer of its own, at
// a lower priority, and lets go of it when nobody watches any more.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/convert_status.h"
#include "base/clock.h"
#include "exports/http_exchange.h"
#include "exports/live_streams.h"
#include "exports/sink.h"
#include "kernel/cgroup_tree.h"
#include "picture/builder.h"
#include "policy/state.h"
#include "sources/observer.h"
#include "sources/pressure_reader.h"

namespace forestall::cli {

class LivePicture final : public exports::RecordSink, public exports::LiveFrames {
 public:
  // `tree` and `clock` outlive this.
  LivePicture(const kernel::CgroupTree& tree, const Clock& clock, const api::AgentFacts& facts);

  // ---- the loop's ----

  void passed(const exports::Pass& pass) override;
  void write(const Record& record) override;
  void surveyed(const exports::Survey& survey) override;

  // ---- any thread's ----

  // All of it, as JSON.
  [[nodiscard]] std::string json();
  // To be held for as long as what json() gave waits for its reader; null: kUnreadMax do already.
  [[nodiscard]] std::shared_ptr<void> turn() const;

  // ---- the watching thread's ----

  void begin() override;
  [[nodiscard]] Frame frame(bool want_whole) override;
  void end() override;

  // More workloads than these are not read for somebody who watches: what decisions read of them is
  // drawn. Each takes three descriptors.
  static constexpr std::size_t kWorkloadsMax = 1000;
  // Pictures that wait for readers: each is megabytes on a large node, and any user of this host
  // may ask for one on each connection and read nothing.
  static constexpr long kUnreadMax = 4;

 private:
  void anchor(MonotonicTime at, std::int64_t wall_time_ns);
  void take_waiting();
  void watch(MonotonicTime now);
  void make_observer();

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  const std::shared_ptr<void> turns_ = std::make_shared<char>();  // one use more for each turn

  // The loop's: records that came while somebody had the lock. They are few and must not be lost.
  std::deque<Record> waiting_;

  std::mutex mutex_;  // the loop only tries it
  picture::Builder builder_;
  std::shared_ptr<const Config> config_;  // in force; null: the loop has not looked yet
  std::uint64_t reloads_ = 0;

  // The watching thread's.
  std::shared_ptr<const Config> watched_;  // what the observer was made for
  std::unique_ptr<sources::Observer> observer_;
  std::optional<sources::PressureReader> pressure_;
  MonotonicTime refreshed_at_;
  picture::Cursor cursor_;
};

// Pages of the status page: itself and its parts, /picture, /live. For this host alone: whoever
// comes from elsewhere, or by a name that is not this host's, is refused.
[[nodiscard]] exports::HttpPages status_pages(LivePicture& picture, exports::LiveStreams& streams);

}  // namespace forestall::cli
