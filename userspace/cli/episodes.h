// SPDX-License-Identifier: Apache-2.0
// What decisions came to, in the words of whoever asks about an incident: which threshold was
// crossed where and for how long, and who had to go when. Two such accounts, of what was recorded
// and of what another policy makes of it, can be held against each other.
//
// An episode is one crossing: from the first look at which a signal of a subject is met to the
// first at which it is not. A signal's soft and hard thresholds are one episode, because whoever
// compares policies moves the one or the other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/decision.h"
#include "model/duration.h"

namespace forestall::cli {

// Somebody who had to go.
struct Departure {
  MonotonicTime at;
  std::string name;
  std::string path;
  // How old the ranking's values were: of workloads that were not read for this decision. Nothing:
  // they were.
  std::optional<Duration> age = std::nullopt;

  friend bool operator==(const Departure&, const Departure&) = default;
};

struct Episode {
  std::string signal;   // its name; of limits on local storage: the cause's
  std::string subject;  // "node", or the path of a cgroup
  MonotonicTime began;
  std::optional<MonotonicTime> ended = std::nullopt;  // nothing: it lasted to the end
  MonotonicTime seen;                                 // met at last
  std::vector<Departure> victims = {};                // the first kMaxVictims
  std::uint64_t kills = 0;                            // decisions to kill for it
  bool in_grace = false;  // nobody had to go, and the last look said that it was in its grace
  Reason reason = Reason::no_data;  // of the last look
  std::string limit;                // of the threshold that was met first, as kubelet prints it

  [[nodiscard]] MonotonicTime end() const { return ended.value_or(seen); }
};

class Episodes {
 public:
  // Kept of one episode; a replay chooses the same victim at each look, because the recording does
  // not show it gone.
  static constexpr std::size_t kMaxVictims = 16;

  // A look. REQUIRES: time does not go back. `age`: of the workloads the decision was made on, if
  // they were not read for it. `shift` is added to every time, by which that of another boot goes
  // on.
  void take(MonotonicTime read, const Decision& decision,
            std::optional<Duration> age = std::nullopt, Duration shift = Duration::zero());
  // The node was rebooted: what went on ended when it was last seen.
  void interrupt();
  // In the order they began.
  [[nodiscard]] const std::vector<Episode>& all() const { return episodes_; }

 private:
  using Name = std::pair<std::string, std::string>;  // signal and subject

  Episode& open(const Name& name, MonotonicTime at);
  void note_kills(MonotonicTime at, const Decision& decision, std::optional<Duration> age);

  std::vector<Episode> episodes_;
  std::map<Name, std::size_t> open_;  // indices of those that go on
};

// How one account differs from another, about one crossing.
struct EpisodeDifference {
  enum class Kind : std::uint8_t {
    same,          // the same one went, within a millisecond
    earlier,       // the same one, earlier
    later,         // the same one, later
    other_victim,  // another one
    only_before,   // crossed in the first account alone, and somebody went
    only_after,    // crossed in the second alone, and somebody goes
    spared,        // crossed in both, somebody went in the first alone
    killed,        // crossed in both, somebody goes in the second alone
    nobody,        // crossed in one or both, nobody went in either
  };
  Kind kind = Kind::same;
  // The two; at least one is set. Pointers into the accounts.
  const Episode* before = nullptr;
  const Episode* after = nullptr;
  // First kill of the second less that of the first; zero unless there are both.
  Duration shift{0};
};

// Beside those of the model, which it would hide.
using forestall::to_string;
[[nodiscard]] std::string_view to_string(EpisodeDifference::Kind kind);

// Every episode of either once, in the order they began. Those of one signal and subject that
// overlap are taken for the same crossing, each at most once.
[[nodiscard]] std::vector<EpisodeDifference> compare(const Episodes& before, const Episodes& after);

}  // namespace forestall::cli
