// SPDX-License-Identifier: Apache-2.0
// Memory that grows as a program's heap does: what the pods hold and leak, and what the bench
// unmaps to measure the kernel's time for it.
#pragma once

#include <cstdint>

namespace forestall::bench {

constexpr std::int64_t kPage = 4096;

// A mapping that is filled page by page. Only release() frees it: most heaps live as long as their
// process.
class Heap {
 public:
  // Room for `most` bytes, none of them filled. Ends the process if there is no such room.
  explicit Heap(std::int64_t most);

  // Fills `bytes` more, in whole pages, up to the room there is. Filling is cheap: most of the time
  // is the kernel's.
  void grow(std::int64_t bytes);

  // Writes to each page of one of `parts` equal parts of what is filled.
  void touch(std::int64_t part, std::int64_t parts);

  bool full() const { return used_ + kPage > most_; }

  // Frees all of it. It cannot be used afterwards.
  void release();

 private:
  std::int64_t most_;
  std::int64_t used_ = 0;
  char* begin_ = nullptr;
};

}  // namespace forestall::bench
