// SPDX-License-Identifier: Apache-2.0
// Reports Events to the API server: a state machine without I/O.
//
// What happens again to the same object becomes a higher count of its Event, at growing intervals.
// New Events have a rate: beyond it, what happens is counted in one Event of the node for each
// reason. So a tenant whose processes are killed without end, or whose pods are made and killed
// without end, causes a few requests a minute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/cluster_event.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

class EventSeries final : public RequestSource {
 public:
  static constexpr std::size_t kMax = 128;
  // Requests at the same time.
  static constexpr std::size_t kRequestsMax = 2;
  // After what happened: the request of its eviction is sent meanwhile, on its own.
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(250);
  // Before the count of a series is sent again; doubled each time.
  static constexpr Duration kFirstInterval = std::chrono::seconds(10);
  static constexpr Duration kLongestInterval = std::chrono::minutes(5);
  // Without anything new, a series ends: the next Event is another object.
  static constexpr Duration kSeriesEndsAfter = std::chrono::minutes(20);
  // An Event that the server does not accept is dropped after that.
  static constexpr Duration kExpiresAfter = std::chrono::minutes(10);
  // New Events at once, and afterwards.
  static constexpr int kBurst = 25;
  static constexpr Duration kPerNew = std::chrono::seconds(15);
  struct Rate {
    int burst = kBurst;
    Duration per_new = kPerNew;
    std::size_t remembered = kMax;  // the last occurrences, each of which is reported once
  };

  // `wall`: seconds of the wall clock. `chance` returns numbers in [0, 1).
  EventSeries(std::string node, std::function<std::int64_t()> wall, std::function<double()> chance,
              Rate rate)
      : node_(std::move(node)),
        wall_(std::move(wall)),
        chance_(std::move(chance)),
        rate_(rate),
        tokens_(rate.burst) {}
  EventSeries(std::string node, std::function<std::int64_t()> wall, std::function<double()> chance)
      : EventSeries(std::move(node), std::move(wall), std::move(chance), Rate{}) {}

  // `occurrence` identifies what happened, if it may be reported twice; empty: it is not.
  void add(const ClusterEvent& event, const std::string& occurrence, MonotonicTime now);
  // For a state that lasts and that the caller offers again: waits for the rate and for room, and
  // for the server without end. REQUIRES: `occurrence` is not empty.
  void offer(const ClusterEvent& event, const std::string& occurrence, MonotonicTime now);
  // Whether an Event of this subject and reason was made, or waits to be made.
  [[nodiscard]] bool has(const EventSubject& subject, std::string_view reason) const;
  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // Whether the server has all of them.
  [[nodiscard]] bool all_reported() const;
  // Occurrences that no Event reports.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Series {
    ClusterEvent event;
    std::string name;  // of the object
    EventCount count;
    std::uint64_t sent = 0;      // of the request under way
    std::uint64_t reported = 0;  // that the server has
    MonotonicTime last{};        // what happened
    MonotonicTime waits_since{};
    MonotonicTime not_before{};
    Duration interval = kFirstInterval;
    bool expires = true;
    kubernetes::Backoff backoff = {};

    [[nodiscard]] bool waits() const { return sent == 0 && reported < count.count; }
  };

  [[nodiscard]] bool is_known(const std::string& occurrence);
  void remember(const std::string& occurrence);
  [[nodiscard]] bool take_token(MonotonicTime now);
  [[nodiscard]] Series* find(const ClusterEvent& event, MonotonicTime now);
  [[nodiscard]] bool make_room();
  void count(Series& series, const ClusterEvent& event, MonotonicTime now);
  // REQUIRES: there is room.
  Series& begin(const ClusterEvent& event, const std::string& occurrence, MonotonicTime now);
  [[nodiscard]] static bool is_expired(const Series& series, MonotonicTime now) {
    return series.expires && series.waits() && now - series.waits_since >= kExpiresAfter;
  }
  static void pause(Series& series, MonotonicTime now);
  void drop(Series& series, MonotonicTime now);
  void accepted(Series& series, std::uint64_t sent, MonotonicTime now);
  void begin_again(Series& series);
  // `is_final`: the API server refuses it, and will again.
  void refused(Series& series, bool is_final, std::optional<Duration> wanted, MonotonicTime now);

  const std::string node_;
  const std::function<std::int64_t()> wall_;
  const std::function<double()> chance_;
  const Rate rate_;
  std::deque<Series> series_;
  std::deque<std::string> occurrences_;  // the latest last
  int tokens_;
  std::optional<MonotonicTime> token_at_;  // when the last one was added
  std::uint64_t made_ = 0;
  std::uint64_t dropped_ = 0;
  std::string problem_;
};

}  // namespace forestall::cluster
