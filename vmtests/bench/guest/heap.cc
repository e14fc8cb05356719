// SPDX-License-Identifier: Apache-2.0
#include "heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "text_file.h"

namespace forestall::bench {
namespace {

constexpr std::size_t kNoisy = kPage / 2;

// Half a page of noise, with which zram compresses a page as well as real heaps.
const char* noise() {
  static char bytes[kNoisy];
  static bool made = false;
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i < kNoisy && !made; i += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(bytes + i, &state, sizeof state);
  }
  made = true;
  return bytes;
}

}  // namespace

Heap::Heap(std::int64_t most) : most_(most) {
  void* const at = mmap(nullptr, static_cast<std::size_t>(most), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  begin_ = static_cast<char*>(at);
}

void Heap::grow(std::int64_t bytes) {
  const std::int64_t until = std::min(used_ + bytes, most_);
  for (; used_ + kPage <= until; used_ += kPage) std::memcpy(begin_ + used_, noise(), kNoisy);
}

void Heap::touch(std::int64_t part, std::int64_t parts) {
  const std::int64_t size = used_ / kPage / parts * kPage;
  for (std::int64_t i = part * size; i < (part + 1) * size; i += kPage) {
    *const_cast<volatile char*>(begin_ + i + kNoisy) = static_cast<char>(i / kPage);
  }
}

void Heap::release() {
  munmap(begin_, static_cast<std::size_t>(most_));
}

}  // namespace forestall::bench
