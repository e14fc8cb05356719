// SPDX-License-Identifier: Apache-2.0
// Passes entries from one thread to another in memory of a fixed size, without a lock.
//
// The producer is the agent's loop at real-time priority; the consumer is a thread of ordinary
// priority. If the consumer were preempted while it holds a lock, the loop would wait until the
// consumer runs again. The memory is mapped for the same reason: the two threads share no allocator
// arena. Pages are allocated on first use.
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
  // `capacity` is rounded up to a power of two, at least 64 KiB.
  static Result<std::unique_ptr<ByteRing>> create(std::size_t capacity);
  ~ByteRing();
  ByteRing(const ByteRing&) = delete;
  ByteRing& operator=(const ByteRing&) = delete;

  // Metadata of an entry.
  struct EntryHead {
    std::int64_t at_ns = 0;
    std::uint64_t lost_bytes = 0;  // size of the entries that did not fit since the previous entry
    std::uint32_t lost_entries = 0;  // number of those entries
    std::uint32_t flags = 0;
  };
  struct Entry {
    EntryHead label;
    std::size_t size = 0;
  };

  // Producer. False: the entry does not fit.
  [[nodiscard]] bool give(std::string_view bytes, const EntryHead& label);
  // Bytes in use. Either thread.
  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

  // Consumer. The oldest entry without its bytes; nothing: the ring is empty.
  [[nodiscard]] std::optional<Entry> peek() const;
  // Consumer. Replaces `out` with the bytes of the oldest entry and frees its space. REQUIRES:
  // peek() returned an entry.
  void take(std::string& out);
  [[nodiscard]] bool empty() const { return used() == 0; }

 private:
  ByteRing(char* bytes, std::size_t capacity) : bytes_(bytes), mask_(capacity - 1) {}
  void copy_in(std::uint64_t at, const void* from, std::size_t size);
  void copy_out(std::uint64_t at, void* to, std::size_t size) const;

  char* const bytes_;
  const std::size_t mask_;
  // Positions only increase. Each has one writer.
  alignas(64) std::atomic<std::uint64_t> given_{0};
  alignas(64) std::atomic<std::uint64_t> taken_{0};
};

}  // namespace forestall::recording
