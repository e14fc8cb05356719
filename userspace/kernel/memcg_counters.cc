// SPDX-License-Identifier: Apache-2.0
#include "kernel/memcg_counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::kernel {
namespace {

// Other processes of the cgroup may take pages at the same time, which spoils a try. Two tries with
// different numbers of pages must agree.
constexpr std::array<std::size_t, 8> kPages{37, 53, 41, 59, 43, 61, 47, 67};
constexpr std::size_t kTries = 64;
// The first five are the LRU lists, which pages enter later (enum lru_list).
constexpr std::size_t kFirst = 5;

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Reserves address space; take() makes the kernel fill it with pages, until the object ends. No
// code of this program touches them: sanitizers would take pages for their own notes.
class AnonymousPages {
 public:
  explicit AnonymousPages(std::size_t pages) : size_(pages * page_size()) {
    void* address =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return;
    address_ = address;
    // A huge page would be more than was requested. Without huge pages it fails, and none come.
    (void)::madvise(address_, size_, MADV_NOHUGEPAGE);
  }
  AnonymousPages(const AnonymousPages&) = delete;
  AnonymousPages& operator=(const AnonymousPages&) = delete;
  ~AnonymousPages() {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  // If it fails, no counter rises, and the try counts for nothing.
  void take() {
    if (address_ != nullptr) (void)::madvise(address_, size_, MADV_POPULATE_WRITE);
  }

 private:
  std::size_t size_;
  void* address_ = nullptr;
};

class SharedPages {
 public:
  explicit SharedPages(std::size_t pages)
      : pages_(pages), file_(::memfd_create("pages", MFD_CLOEXEC)) {}
  // If it fails, no counter rises, and the try counts for nothing.
  void take() {
    if (file_) (void)::fallocate(file_.get(), 0, 0, static_cast<::off_t>(pages_ * page_size()));
  }

 private:
  std::size_t pages_;
  UniqueFd file_;
};

// The `wanted` counters that rose by exactly the pages taken, in two tries. Empty: there were none.
template <typename Pages>
std::vector<std::size_t> rising(const ReadMemcgCounters& read, std::size_t wanted) {
  std::map<std::vector<std::size_t>, std::size_t> seen;  // with the pages of its try
  // Nothing is allocated between two readings once these have their size.
  std::vector<std::int64_t> before, after;
  read(before);
  read(after);
  for (std::size_t i = 0; i < kTries; ++i) {
    const std::size_t count = kPages[i % kPages.size()];
    std::vector<std::size_t> rose;
    Pages pages(count);
    read(before);
    pages.take();
    read(after);
    for (std::size_t at = kFirst; at < std::min(before.size(), after.size()); ++at) {
      if (after[at] - before[at] == static_cast<std::int64_t>(count)) rose.push_back(at);
    }
    if (rose.size() != wanted) continue;
    const auto [earlier, is_new] = seen.emplace(rose, count);
    if (!is_new && earlier->second != count) return rose;
  }
  return {};
}

}  // namespace

MemcgCounters find_memcg_counters(const ReadMemcgCounters& read) {
  MemcgCounters counters;
  if (const auto anon = rising<AnonymousPages>(read, 1); !anon.empty()) {
    counters.anon = static_cast<std::int32_t>(anon.front());
  }
  // Shared memory is in the page cache, too: NR_FILE_PAGES comes before NR_SHMEM in every order.
  if (const auto shmem = rising<SharedPages>(read, 2); !shmem.empty()) {
    counters.shmem = static_cast<std::int32_t>(shmem.back());
  }
  return counters;
}

}  // namespace forestall::kernel
