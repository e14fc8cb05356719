// SPDX-License-Identifier: Apache-2.0
// Entries from one thread to another, in memory of a fixed size, without a lock.
//
// No lock, because the giver is the agent's loop at real time and the taker a thread of ordinary
// priority: one that is preempted while it holds what the loop needs would hold up the loop for as
// long as a busy machine keeps it from the CPU. The memory is mapped for the same reason: the two
// share no arena of the allocator. Pages are taken as they are first used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::recording {

class ByteRing {
 public:
  // `capacity` is rounded up to a power of two, 64 KiB at least.
  static Result<std::unique_ptr<ByteRing>> create(std::size_t capacity);
  ~ByteRing();
  ByteRing(const ByteRing&) = delete;
  ByteRing& operator=(const ByteRing&) = delete;

  // What goes with an entry.
  struct Label {
    std::int64_t at_ns = 0;
    std::uint64_t lost_bytes = 0;    // of entries that found no room since the one before
    std::uint32_t lost_entries = 0;  // how many those were
    std::uint32_t flags = 0;
  };
  struct Entry {
    Label label;
    std::size_t size = 0;
  };

  // The giver's. False: there is no room.
  [[nodiscard]] bool give(std::string_view bytes, const Label& label);
  // Bytes taken, as either side sees it.
  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

  // The taker's. The oldest entry without its bytes; nothing: there is none.
  [[nodiscard]] std::optional<Entry> peek() const;
  // Its bytes are put in `out` in place of what is there; then its room is free. REQUIRES: peek()
  // found one.
  void take(std::string& out);
  [[nodiscard]] bool empty() const { return used() == 0; }

 private:
  ByteRing(char* bytes, std::size_t capacity) : bytes_(bytes), mask_(capacity - 1) {}
  void copy_in(std::uint64_t at, const void* from, std::size_t size);
  void copy_out(std::uint64_t at, void* to, std::size_t size) const;

  char* const bytes_;
  const std::size_t mask_;
  // Positions count up for ever. Each has one writer.
  alignas(64) std::atomic<std::uint64_t> given_{0};
  alignas(64) std::atomic<std::uint64_t> taken_{0};
};

}  // namespace forestall::recording
