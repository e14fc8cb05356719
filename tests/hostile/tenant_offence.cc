// SPDX-License-Identifier: Apache-2.0
#include "hostile/tenant_offence.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

namespace forestall::test {
namespace {

constexpr std::int64_t kPage = 4096;

void touch(void* area, std::int64_t size) {
  for (std::int64_t at = 0; at < size; at += kPage) static_cast<volatile char*>(area)[at] = 1;
}

void take(std::int64_t size, int flags) {
  void* area = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                    flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return;
  madvise(area, static_cast<std::size_t>(size), MADV_NOHUGEPAGE);
  touch(area, size);
}

void fill(int file, std::int64_t size) {
  static const std::array<char, kPage> page{};
  for (std::int64_t at = 0; at < size; at += kPage) {
    if (write(file, page.data(), page.size()) < 0) return;  // full: holds what it has
  }
}

void leave_segment(key_t key, std::int64_t size) {
  const int id = shmget(key, static_cast<std::size_t>(size), IPC_CREAT | 0666);
  void* area = shmat(id, nullptr, 0);
  if (area == reinterpret_cast<void*>(-1)) return;
  touch(area, size);
}

void split(std::int64_t amount) {
  constexpr int kParts = 8;
  for (int i = 1; i < kParts; ++i) {
    if (fork() == 0) break;
  }
  take(amount / kParts, MAP_PRIVATE);
}

}  // namespace

void wait_for_end(int lives) {
  pollfd closed{lives, 0, 0};  // POLLHUP: the test closed its end
  while (poll(&closed, 1, -1) != 1) {
  }
  _exit(0);
}

void commit_offence(Offence offence, std::int64_t amount, const TenantPlace& place) {
  switch (offence) {
    case Offence::none: return;
    case Offence::anon: return take(amount, MAP_PRIVATE);
    case Offence::runaway:
      take(std::max<std::int64_t>(amount, kPage), MAP_PRIVATE);
      // A short pause for each MiB lets the agent act first on a machine that is not busy.
      for (;;) {
        take(1 << 20, MAP_PRIVATE);
        poll(nullptr, 0, 20);
      }
    case Offence::shared: return take(amount, MAP_SHARED);
    case Offence::memfd: return fill(memfd_create("tenant", 0), amount);
    case Offence::split: return split(amount);
    case Offence::tmpfs:
      return fill(open((place.tmpfs + "/left").c_str(), O_CREAT | O_WRONLY, 0600), amount);
    case Offence::sysv: return leave_segment(place.segment, amount);
  }
}

void offend_without_leader(Offence offence, std::int64_t amount, const TenantPlace& place,
                           int lives) {
  std::thread([=] {
    commit_offence(offence, amount, place);
    wait_for_end(lives);
  }).detach();
  syscall(SYS_exit, 0);
  __builtin_unreachable();
}

}  // namespace forestall::test
