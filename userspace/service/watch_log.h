// SPDX-License-Identifier: Apache-2.0
// Messages for all watch clients: serialized once, stored once, and read by each client at its own
// pace.
//
// A client stores only its position. Any number of slow clients therefore costs at most kBytesMax
// in total, and a slower client receives the number of messages it lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "wire/grpc_service.h"

namespace forestall::service {

// Thread rule: one thread.
class WatchLog {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{2} << 20;

  struct Entry {
    wire::GrpcFrame frame;
    std::uint32_t kind = 0;  // for the client's filter
  };

  // The position of a new client.
  [[nodiscard]] std::uint64_t end() const { return first_ + entries_.size(); }

  void push(Entry entry) {
    bytes_ += entry.frame->size();
    entries_.push_back(std::move(entry));
    // Keeps the last entry, whatever its size.
    while (bytes_ > kBytesMax && entries_.size() > 1) {
      bytes_ -= entries_.front().frame->size();
      entries_.pop_front();
      ++first_;
    }
  }
  // Removes all entries, because no client is left. Positions remain valid.
  void clear() {
    first_ = end();
    entries_.clear();
    bytes_ = 0;
  }

  // Number of removed entries from `place` on; moves `place` after them.
  [[nodiscard]] std::uint64_t skip_lost(std::uint64_t& place) const {
    if (place >= first_) return 0;
    return first_ - std::exchange(place, first_);
  }
  // The entry at `place`; null: not added yet. REQUIRES: skip_lost() was called before.
  [[nodiscard]] const Entry* at(std::uint64_t place) const {
    return place < end() ? &entries_[static_cast<std::size_t>(place - first_)] : nullptr;
  }

 private:
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;  // position of the first entry
  std::size_t bytes_ = 0;
};

}  // namespace forestall::service
