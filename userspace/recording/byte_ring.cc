// SPDX-License-Identifier: Apache-2.0
#include "recording/byte_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace forestall::recording {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10;

// Stored before the bytes of each entry.
struct Head {
  std::uint64_t size = 0;
  ByteRing::EntryHead label;
};

}  // namespace

Result<std::unique_ptr<ByteRing>> ByteRing::create(std::size_t capacity) {
  capacity = std::bit_ceil(std::max(capacity, kLeast));
  void* const mapped = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return errno_error("mmap", "recording queue");
  return std::unique_ptr<ByteRing>(new ByteRing(static_cast<char*>(mapped), capacity));
}

ByteRing::~ByteRing() {
  ::munmap(bytes_, capacity());
}

// seq_cst: the producer stores its position and then checks whether the consumer sleeps; the
// consumer announces that it sleeps and then checks the position. One of the two must see the
// other's store.
std::size_t ByteRing::used() const {
  const std::uint64_t taken = taken_.load();
  return static_cast<std::size_t>(given_.load() - taken);
}

bool ByteRing::give(std::string_view bytes, const EntryHead& label) {
  const std::uint64_t at = given_.load(std::memory_order_relaxed);
  const std::size_t room = capacity() - static_cast<std::size_t>(at - taken_.load());
  if (room < sizeof(Head) || room - sizeof(Head) < bytes.size()) return false;
  const Head head{bytes.size(), label};
  copy_in(at, &head, sizeof head);
  copy_in(at + sizeof head, bytes.data(), bytes.size());
  given_.store(at + sizeof head + bytes.size());
  return true;
}

std::optional<ByteRing::Entry> ByteRing::peek() const {
  const std::uint64_t at = taken_.load(std::memory_order_relaxed);
  if (given_.load() == at) return std::nullopt;
  Head head;
  copy_out(at, &head, sizeof head);
  return Entry{head.label, static_cast<std::size_t>(head.size)};
}

void ByteRing::take(std::string& out) {
  const std::uint64_t at = taken_.load(std::memory_order_relaxed);
  Head head;
  copy_out(at, &head, sizeof head);
  out.resize(head.size);
  copy_out(at + sizeof head, out.data(), head.size);
  taken_.store(at + sizeof head + head.size);
}

void ByteRing::copy_in(std::uint64_t at, const void* from, std::size_t size) {
  const std::size_t begin = static_cast<std::size_t>(at) & mask_;
  const std::size_t first = std::min(size, capacity() - begin);
  if (first > 0) std::memcpy(bytes_ + begin, from, first);
  if (size > first) std::memcpy(bytes_, static_cast<const char*>(from) + first, size - first);
}

void ByteRing::copy_out(std::uint64_t at, void* to, std::size_t size) const {
  const std::size_t begin = static_cast<std::size_t>(at) & mask_;
  const std::size_t first = std::min(size, capacity() - begin);
  if (first > 0) std::memcpy(to, bytes_ + begin, first);
  if (size > first) std::memcpy(static_cast<char*>(to) + first, bytes_, size - first);
}

}  // namespace forestall::recording
