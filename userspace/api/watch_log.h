// SPDX-License-Identifier: Apache-2.0
// What is told to all that watch: made once, kept in one place, read by each at its own pace.
//
// A watcher holds its place here and nothing else. So any number of slow ones costs what one does,
// kBytesMax, and who falls behind by more than that is told how much it has lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "exports/grpc_service.h"

namespace forestall::api {

// Thread rule: one thread.
class WatchLog {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{2} << 20;

  struct Entry {
    exports::GrpcFrame frame;
    std::uint32_t kind = 0;  // what the watcher's choice goes by
  };

  // The place of who begins to watch now.
  [[nodiscard]] std::uint64_t end() const { return first_ + entries_.size(); }

  void push(Entry entry) {
    bytes_ += entry.frame->size();
    entries_.push_back(std::move(entry));
    // The last one stays, whatever its size.
    while (bytes_ > kBytesMax && entries_.size() > 1) {
      bytes_ -= entries_.front().frame->size();
      entries_.pop_front();
      ++first_;
    }
  }
  // Gives all back: nobody watches. Places stay what they are.
  void clear() {
    first_ = end();
    entries_.clear();
    bytes_ = 0;
  }

  // How many entries between `place` and what is still here are gone; moves `place` past them.
  [[nodiscard]] std::uint64_t skip_lost(std::uint64_t& place) const {
    if (place >= first_) return 0;
    return first_ - std::exchange(place, first_);
  }
  // The entry at `place`; null: it has not come yet. REQUIRES: skip_lost() before.
  [[nodiscard]] const Entry* at(std::uint64_t place) const {
    return place < end() ? &entries_[static_cast<std::size_t>(place - first_)] : nullptr;
  }

 private:
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;  // place of the first of them
  std::size_t bytes_ = 0;
};

}  // namespace forestall::api
