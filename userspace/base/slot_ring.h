// SPDX-License-Identifier: Apache-2.0
// A bounded queue between two threads that share no lock: the writer runs at real-time priority and
// must never wait for a reader that was preempted.
//
// The slots are reused, and only the writer creates, assigns and destroys their contents; the
// reader only reads. The two threads therefore do not share the allocator's locks either.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace forestall {

// Thread rule: one writer, one reader.
template <typename T, std::size_t kSlots>
class SlotRing {
 public:
  // Writer: the slot to fill, with its old contents; null: all slots are full.
  [[nodiscard]] T* next_free() {
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    // Pairs with pop(): a slot is overwritten only after the reader has finished with it.
    if (written - read_.load(std::memory_order_acquire) == kSlots) return nullptr;
    return &slots_[written % kSlots];
  }
  // Writer: publishes the slot of next_free().
  void push() { written_.store(written_.load(std::memory_order_relaxed) + 1); }
  // Writer: whether the reader has read all slots.
  [[nodiscard]] bool all_read() const {
    return read_.load(std::memory_order_acquire) == written_.load(std::memory_order_relaxed);
  }
  // Writer: frees the contents of the slots. REQUIRES: all_read().
  void clear() {
    for (T& slot : slots_) slot = T();
  }

  // Reader: the oldest unread slot; null: none.
  [[nodiscard]] const T* front() const {
    const std::uint64_t read = read_.load(std::memory_order_relaxed);
    return read == written_.load(std::memory_order_acquire) ? nullptr : &slots_[read % kSlots];
  }
  // Reader: releases front().
  void pop() { read_.store(read_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  std::array<T, kSlots> slots_{};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
};

}  // namespace forestall
