// SPDX-License-Identifier: Apache-2.0
// The running agent's picture: a bounded history of the loop's evaluations and, while a client
// watches, the node and its workloads each second.
//
// The loop only adds to it, under a lock it never waits for. Reading for clients is done by the
// thread that serves them (exports/live_streams.h), with its own observer and at a lower priority.
// The observer is closed when the last client leaves.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "exports/http_exchange.h"
#include "exports/live_streams.h"
#include "exports/sink.h"
#include "kernel/cgroup_tree.h"
#include "picture/builder.h"
#include "policy/state.h"
#include "service/convert_status.h"
#include "sources/observer.h"
#include "sources/pressure_reader.h"

namespace forestall::daemon {

class LivePicture final : public exports::RecordSink,
                          public exports::PassListener,
                          public exports::LiveFrames {
 public:
  // `tree` and `clock` must outlive this.
  LivePicture(const kernel::CgroupTree& tree, const Clock& clock, const service::AgentFacts& facts);

  // ---- the loop's thread ----

  void passed(const exports::PolicyPass& pass) override;
  void write(const Record& record) override;
  void sampled(const exports::WorkloadSampling& workload_sample) override;

  // ---- any thread ----

  // The whole picture, as JSON.
  [[nodiscard]] std::string json();
  // To be held while a result of json() waits for its reader; null: kUnreadMax are held already.
  [[nodiscard]] std::shared_ptr<void> turn() const;

  // ---- the serving thread ----

  void begin() override;
  [[nodiscard]] PageUpdate frame(bool with_whole) override;
  void end() override;

  // With more workloads the serving thread reads none, and the picture shows those that decisions
  // read. Each takes three descriptors.
  static constexpr std::size_t kWorkloadsMax = 1000;
  // Pictures that wait for readers: each is megabytes on a large node, and any user of this host
  // may request one on each connection without reading it.
  static constexpr long kUnreadMax = 4;

 private:
  void anchor(MonotonicTime at, std::int64_t wall_time_ns);
  void take_waiting();
  void watch(MonotonicTime now);
  void make_observer();

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  const std::shared_ptr<void> turns_ = std::make_shared<char>();  // one use more for each answer

  // The loop's: records that came while another thread had the lock. They are few and must not be
  // lost.
  std::deque<Record> waiting_;

  std::mutex mutex_;  // the loop only tries to lock it
  picture::Builder builder_;
  std::shared_ptr<const Config> config_;  // in force; null: there was no evaluation yet
  std::uint64_t reloads_ = 0;

  // The serving thread's.
  std::shared_ptr<const Config> watched_;  // the observer was made for this one
  std::unique_ptr<sources::Observer> observer_;
  std::optional<sources::PressureReader> pressure_;
  MonotonicTime refreshed_at_;
  picture::Cursor cursor_;
};

// Pages of the status page: itself and its parts, /picture, /live. A request from another host, or
// for a name that is not this host's, is refused.
[[nodiscard]] exports::HttpPages status_pages(LivePicture& picture, exports::LiveStreams& streams);

}  // namespace forestall::daemon
