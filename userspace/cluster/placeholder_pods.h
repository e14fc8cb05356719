// SPDX-License-Identifier: Apache-2.0
// The placeholders of a rebalancer: creates each one, waits until the scheduler bound it, and
// removes it when its room is no longer needed. A state machine without I/O.
//
// Only creation needs the leadership. A placeholder is removed in any case, by its UID, so that
// this process removes none of the next leader. One that cannot be removed ends by its
// activeDeadlineSeconds.
//
// One that terminates still has its name, and its room for the scheduler: none is created in its
// place until it is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cluster/placeholder_pod.h"
#include "cluster/request_source.h"
#include "kubernetes/api_status.h"
#include "kubernetes/backoff.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

enum class RoomState : std::uint8_t { waiting, held, refused };

struct ReservedRoom {
  RoomState state = RoomState::waiting;
  std::string problem;  // why it is refused
};

enum class PlaceholderChange : std::uint8_t {
  created,
  held,     // bound to its node
  failed,   // no room: the pod is not evicted
  removed,  // by this process
  lost,     // another pod preempted it, or the kubelet ended it
  left,     // not removed: it ends by its deadline
};
// "created", ...
[[nodiscard]] std::string_view to_string(PlaceholderChange change);

class PlaceholderPods final : public RequestSource {
 public:
  static constexpr Duration kBindLongest = std::chrono::seconds(10);
  static constexpr Duration kReadInterval = std::chrono::milliseconds(100);
  // From the removal until one that still terminates counts as gone: its node may not answer.
  static constexpr Duration kTerminatesLongest = std::chrono::seconds(10);
  // While the removal of another one fails or goes on, a room on its node is waited for so long.
  static constexpr Duration kRemovalLongest = std::chrono::seconds(15);
  // Until a placeholder is left to its deadline, or to the next plan.
  static constexpr int kRemovalsMax = 8;
  // Of an answer: one pod.
  static constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20;

  struct Options {
    std::string pod_namespace;
    Duration holds{};           // the longest time of one room
    Duration answer_longest{};  // of one request
  };
  struct Changed {
    PodTarget pod;  // that is moved
    std::string node;
    PlaceholderChange change = PlaceholderChange::created;
    std::string why;  // empty: as planned
  };

  // `may_create` is called right before each creation. `chance` returns numbers in [0, 1).
  PlaceholderPods(Options options, std::function<bool()> may_create, std::function<double()> chance)
      : options_(std::move(options)),
        may_create_(std::move(may_create)),
        chance_(std::move(chance)) {}

  // Of the pod with this UID; nothing: begin() was not called.
  [[nodiscard]] std::optional<ReservedRoom> find(const std::string& pod_uid) const;
  void begin(WantedRoom room, MonotonicTime now);
  // The pod may have been evicted: the room is held until its replacement has a node.
  void expect_replacement(const std::string& pod_uid);
  // The room is not needed.
  void release(const std::string& pod_uid, std::string_view why, MonotonicTime now);
  void release_all(std::string_view why, MonotonicTime now);
  // Removes placeholders of the snapshot that are not of this process, or that it left.
  void remove_leftovers(const rebalance::Snapshot& snapshot, MonotonicTime now);

  // Namespaces of moved pods without a replacement so far.
  [[nodiscard]] std::vector<std::string> awaited() const;
  // Releases rooms whose replacements have a node. `begun`: nothing in the snapshot is older. It
  // has the pods of awaited() and the placeholders.
  void observe(const rebalance::Snapshot& snapshot, MonotonicTime begun, MonotonicTime now);

  // Whether there is no placeholder.
  [[nodiscard]] bool done() const { return pods_.empty(); }
  // That hold their room now.
  [[nodiscard]] std::size_t held() const;
  // Since the last call.
  [[nodiscard]] std::vector<Changed> take_changes();

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;

 private:
  enum class PlaceholderStep : std::uint8_t { create, bind, hold, remove, refused };
  enum class Sent : std::uint8_t { nothing, creation, reading, removal };
  struct Placeholder {
    WantedRoom room;
    std::string name;
    std::string uid;  // empty: unknown
    PlaceholderStep step = PlaceholderStep::create;
    Sent sent = Sent::nothing;
    bool may_exist = false;
    bool leftover = false;
    bool evicted = false;  // its pod
    bool released = false;
    bool terminates = false;  // its removal was accepted
    std::string refusal;      // why there is no room; empty: there is, or may be
    std::string why;          // it is removed
    MonotonicTime not_before{};
    MonotonicTime bound_until{};
    MonotonicTime held_since{};
    MonotonicTime gone_at{};  // the latest
    MonotonicTime removed_since{};
    int removals = 0;
    kubernetes::Backoff backoff;
  };
  using Placeholders = std::map<std::string, Placeholder, std::less<>>;  // by UID of the moved pod

  // When its removal began; nothing: none is being removed that has this room or its name.
  [[nodiscard]] std::optional<MonotonicTime> blocked_since(const std::string& node) const;
  void report(const Placeholder& of, PlaceholderChange change, std::string why = "");
  void refuse(Placeholder& of, std::string problem, MonotonicTime now);
  void remove(Placeholder& of, std::string_view why, MonotonicTime now);
  void expire(MonotonicTime now);
  void erase_ended();
  [[nodiscard]] KeyedRequest send(const std::string& key, Placeholder& of, Sent what);
  void created(Placeholder& of, const kubernetes::ResponseHead& head, std::string_view body,
               const std::optional<Error>& failure, MonotonicTime now);
  void read(Placeholder& of, const kubernetes::ResponseHead& head, std::string_view body,
            const std::optional<Error>& failure, MonotonicTime now);
  void removed(Placeholder& of, const kubernetes::ResponseHead& head, std::string_view body,
               const std::optional<Error>& failure, MonotonicTime now);
  void await_end(Placeholder& of, const Result<PlaceholderStatus>& status, MonotonicTime now);
  // The API server has no such placeholder.
  [[nodiscard]] bool is_without(const Placeholder& of, const kubernetes::ApiStatus& status) const;
  void remove_later(Placeholder& of, const std::string& problem, MonotonicTime now);
  void gone(Placeholder& of);

  const Options options_;
  const std::function<bool()> may_create_;
  const std::function<double()> chance_;
  Placeholders pods_;
  std::vector<Changed> changes_;
};

}  // namespace forestall::cluster
