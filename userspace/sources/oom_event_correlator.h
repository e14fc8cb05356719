// SPDX-License-Identifier: Apache-2.0
// Merges the reports of one OOM kill from up to two sources: the BPF event, which identifies the
// victim, and the kernel's log, which names the constraint.
//
// Both arrive within microseconds of each other, but a burst of log lines, a lost event or rate
// limiting can delay or drop either. The first report therefore waits up to kPatience for the
// second, and is then emitted alone. A report that arrives even later is dropped and counted.
//
// Two reports match if they name the same pid and their times differ by at most kWindow. The window
// must cover the drift of the log's clock (sources/oom_log.h). A wrong match requires that a pid is
// reused and killed again within it. Even then reports are paired in order, because each source
// keeps its order.
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

enum class OomEventSource : std::uint8_t { bpf, log };

// Merges both reports. The event's own figures (times, identity, memory) take precedence.
[[nodiscard]] OomKillEvent merge_events(const OomKillEvent& event, const OomKillEvent& log);

class OomEventCorrelator {
 public:
  // No source reports kills.
  OomEventCorrelator() : OomEventCorrelator(false, false) {}
  // Which of the two sources exist; a missing source is not waited for.
  OomEventCorrelator(bool bpf, bool log) : bpf_(bpf), log_(log) {}

  // Takes the kills that `source` has drained.
  void take_from(Source& source, MonotonicTime now);
  void report(OomEventSource event_source, OomKillEvent event, MonotonicTime now);
  // Appends the kills that are complete or have waited long enough, in the order of their first
  // report.
  void take(MonotonicTime now, std::vector<OomKillEvent>& kills);
  // When take() must be called even without a new report; nullopt: never.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;

  // Reports dropped because their kill was already emitted.
  [[nodiscard]] std::uint64_t late() const { return late_; }

  static constexpr Duration kPatience = std::chrono::milliseconds(200);
  static constexpr Duration kWindow = std::chrono::seconds(10);
  // Limit of waiting and of recently emitted reports; the oldest is dropped first.
  static constexpr std::size_t kKept = 4096;

 private:
  struct Half {
    OomEventSource event_source = OomEventSource::bpf;
    OomKillEvent event;
    MonotonicTime reported;
    bool complete = false;
    std::uint64_t key = 0;  // in its Halves
  };
  // Reports in order of arrival, indexed by the victim's pid: a burst is bounded only by the ring
  // and the log.
  class Halves {
   public:
    [[nodiscard]] bool empty() const { return halves_.empty(); }
    [[nodiscard]] std::size_t size() const { return halves_.size(); }
    // REQUIRES: !empty().
    [[nodiscard]] const Half& front() const { return halves_.begin()->second; }
    Half take_front();
    void push_back(Half half);
    // The first incomplete report of the same kill by the other source.
    [[nodiscard]] Half* find_other(OomEventSource event_source, const OomKillEvent& event);
    // REQUIRES: it is one of these.
    void erase(const Half& half);

   private:
    std::map<std::uint64_t, Half> halves_;                 // by arrival
    std::set<std::pair<pid_t, std::uint64_t>> by_victim_;  // keys of all halves
    std::uint64_t next_ = 0;
  };
  [[nodiscard]] bool waits(const Half& half, MonotonicTime now) const;

  bool bpf_;
  bool log_;
  Halves halves_;  // not yet taken, by arrival
  Halves alone_;   // taken unmatched, within the window
  std::uint64_t late_ = 0;
};

}  // namespace forestall::sources
