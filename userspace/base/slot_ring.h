// SPDX-License-Identifier: Apache-2.0
// A bounded queue between two threads that share no lock: the writer runs at real time, and must
// never wait for a reader that was preempted.
//
// The slots stay, and their contents are made, assigned and destroyed by the writer alone; the
// reader only looks. So the two do not meet in the allocator either, whose locks are locks like any
// other.
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
  // Writer: the slot to fill, as it was left by what is overwritten; null: all are full.
  [[nodiscard]] T* next_free() {
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    // Pairs with pop(): what the reader has looked at is overwritten only after it has looked.
    if (written - read_.load(std::memory_order_acquire) == kSlots) return nullptr;
    return &slots_[written % kSlots];
  }
  // Writer: hands over the slot of next_free().
  void push() { written_.store(written_.load(std::memory_order_relaxed) + 1); }
  // Writer: whether the reader has seen all.
  [[nodiscard]] bool all_read() const {
    return read_.load(std::memory_order_acquire) == written_.load(std::memory_order_relaxed);
  }
  // Writer: gives back what the slots hold. REQUIRES: all_read().
  void clear() {
    for (T& slot : slots_) slot = T();
  }

  // Reader: the oldest slot that was not read yet; null: none.
  [[nodiscard]] const T* front() const {
    const std::uint64_t read = read_.load(std::memory_order_relaxed);
    return read == written_.load(std::memory_order_acquire) ? nullptr : &slots_[read % kSlots];
  }
  // Reader: is done with front().
  void pop() { read_.store(read_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  std::array<T, kSlots> slots_{};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
};

}  // namespace forestall
