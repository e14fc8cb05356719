// SPDX-License-Identifier: Apache-2.0
// One telling of each OOM kill, from up to two tellers of it: the BPF event, which knows the victim
// by heart, and the kernel's log, which knows the constraint.
//
// Both tell within microseconds of each other, but a burst of log lines, a lost event or a
// rate-limited one makes either late or silent. So the first telling waits for its other half, not
// longer than kPatience, and is told alone then; a half that comes even later is dropped and
// counted.
//
// Two tellings are of one kill if they name the same pid and their times are at most kWindow apart.
// The window has to cover how far the log's clock may stray (sources/oom_log.h); for it to be
// wrong, a pid would have to go round and be killed again within it, and even then the tellings
// pair up as they come, because each teller keeps to its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/oom_kill.h"
#include "sources/source.h"

namespace forestall::sources {

enum class OomTeller : std::uint8_t { bpf, log };

// What both know together. The event's own figures (times, identity, memory) count first.
[[nodiscard]] OomKillSighting merge_sightings(const OomKillSighting& event,
                                              const OomKillSighting& log);

class OomSightings {
 public:
  // No source reports kills.
  OomSightings() : OomSightings(false, false) {}
  // Which of the two sources there are: a kill does not wait for one that is missing.
  OomSightings(bool bpf, bool log) : bpf_(bpf), log_(log) {}

  // Takes the kills that `source` has drained.
  void take_from(Source& source, MonotonicTime now);
  void tell(OomTeller teller, OomKillSighting sighting, MonotonicTime now);
  // Appends the kills that are complete, or have waited for long enough, in the order in which they
  // were first told.
  void take(MonotonicTime now, std::vector<OomKillSighting>& kills);
  // When take() must be called though nobody tells anything; nothing: never.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const;

  // Tellings that were dropped: halves of kills told already.
  [[nodiscard]] std::uint64_t late() const { return late_; }

  static constexpr Duration kPatience = std::chrono::milliseconds(200);
  static constexpr Duration kWindow = std::chrono::seconds(10);
  // More than this that wait, or were told lately, are not kept: the oldest goes first.
  static constexpr std::size_t kKept = 4096;

 private:
  struct Half {
    OomTeller teller = OomTeller::bpf;
    OomKillSighting sighting;
    MonotonicTime told;
    bool complete = false;
    std::uint64_t key = 0;  // in the Halves it is in
  };
  // Halves as they came, found by their victim's pid: a burst of kills is as long as the ring and
  // the log let it be.
  class Halves {
   public:
    [[nodiscard]] bool empty() const { return halves_.empty(); }
    [[nodiscard]] std::size_t size() const { return halves_.size(); }
    // REQUIRES: !empty().
    [[nodiscard]] const Half& front() const { return halves_.begin()->second; }
    Half take_front();
    void push_back(Half half);
    // The first that the other teller told of the same kill and that is not complete.
    [[nodiscard]] Half* find_other(OomTeller teller, const OomKillSighting& sighting);
    // REQUIRES: it is one of these.
    void erase(const Half& half);

   private:
    std::map<std::uint64_t, Half> halves_;                 // by when they came
    std::set<std::pair<pid_t, std::uint64_t>> by_victim_;  // the keys of all of them
    std::uint64_t next_ = 0;
  };
  [[nodiscard]] bool waits(const Half& half, MonotonicTime now) const;

  bool bpf_;
  bool log_;
  Halves halves_;  // not yet taken, as they came
  Halves alone_;   // taken without their other half, within the window
  std::uint64_t late_ = 0;
};

}  // namespace forestall::sources
