// SPDX-License-Identifier: Apache-2.0
// What is on record: decisions with their candidates and what came of them, kills by the kernel.
//
// A kill is on record twice, when it was begun and when it is over: the later one stands in for the
// earlier. In a recording, records refer to looks; what they may need of those is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "forestall/v1/picture.pb.h"
#include "model/record.h"

namespace forestall::picture {

// Thread rule: one thread.
class Moments {
 public:
  struct Limits {
    std::size_t moments = 400;
    std::size_t candidates = 32;  // of each; more up to the victim
  };
  explicit Moments(Limits limits) : limits_(limits) {}

  // A look that a record may refer to by its number, which ascends until forget_looks().
  void look(std::uint64_t number, const Record& looked);
  // Another run of the agent numbers its looks anew: no record refers to those so far.
  void forget_looks();
  // What is on record of the look with that number, which has its observation and decision; 0: the
  // record has its own. `run` tells runs of the agent apart, whose sequences begin anew.
  void record(std::uint64_t look, std::uint64_t run, std::int64_t at_us, bool dry_run,
              const Record& record);

  // Times of kills, ours and the kernel's.
  [[nodiscard]] std::vector<std::int64_t> kill_times() const;
  // Those that are new or changed since `revision`, 0 for all.
  void put(v1::Picture& out, std::uint64_t since) const;
  [[nodiscard]] std::uint64_t revision() const { return revision_; }

 private:
  struct Told {
    v1::Moment moment;
    std::uint64_t revision = 0;
    std::optional<std::int64_t> to_signal_ns = std::nullopt;
  };
  // A look that a record may be about.
  struct Seen {
    std::uint64_t number = 0;
    Record looked;  // what of it is told
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] const Seen* find(std::uint64_t number) const;
  // What of a record is told; counts what is left out of `considered`.
  [[nodiscard]] Record trimmed(const Record& record, std::uint64_t& left_out) const;
  void make_room();

  Limits limits_;
  std::map<std::uint64_t, Told> told_;  // by id
  std::deque<Seen> kills_;              // looks that killed
  std::deque<Seen> others_;             // the last of the others
  std::uint64_t revision_ = 0;
  std::uint64_t left_out_ = 0;
  v1::PictureSummary gone_;  // counts of those that were left out
};

}  // namespace forestall::picture
