// SPDX-License-Identifier: Apache-2.0
#include "support/filler.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace forestall::test {
namespace {

constexpr std::size_t kPage = 4096;

struct Command {
  char what = 'f';
  std::int64_t pages = 0;
};

struct Held {
  void* area = nullptr;
  std::size_t size = 0;
};

int write_pages(int file, off_t& at, std::int64_t pages) {
  static const std::array<char, kPage> page{};
  for (; pages > 0; --pages) {
    if (::pwrite(file, page.data(), kPage, at) != static_cast<ssize_t>(kPage)) return errno;
    at += static_cast<off_t>(kPage);
  }
  return 0;
}

int hold_pages(Held& held, std::int64_t pages) {
  held.size = static_cast<std::size_t>(pages) * kPage;
  held.area = ::mmap(nullptr, held.size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (held.area == MAP_FAILED) return errno;
  ::madvise(held.area, held.size, MADV_HUGEPAGE);
  for (std::size_t at = 0; at < held.size; at += kPage) {
    static_cast<volatile unsigned char*>(held.area)[at] = 1;
  }
  return 0;
}

int run_filler(int commands, int replies) {
  // Without CAP_SYS_RESOURCE the kernel refuses this, and may choose the filler as a victim.
  std::ofstream("/proc/self/oom_score_adj") << -1000;
  const int file = ::memfd_create("filler", MFD_CLOEXEC);
  off_t at = 0;
  Held held;
  Command command;
  while (::read(commands, &command, sizeof(command)) == sizeof(command)) {
    int result = 0;
    if (command.what == 'f') result = write_pages(file, at, command.pages);
    if (command.what == 'h') result = hold_pages(held, command.pages);
    if (command.what == 'd') {
      if (held.area != nullptr) ::munmap(held.area, held.size);
      held = {};
      at = 0;
      result = ::ftruncate(file, 0);
    }
    if (::write(replies, &result, sizeof(result)) != sizeof(result)) return 1;
  }
  return 0;
}

std::pair<UniqueFd, UniqueFd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Filler::Filler()
    : child_([&] {
        std::tie(command_read_, command_write_) = make_pipe();
        std::tie(reply_read_, reply_write_) = make_pipe();
        return Child([&] {
          command_write_.reset();
          return run_filler(command_read_.get(), reply_write_.get());
        });
      }()) {
  reply_write_.reset();  // so that the filler's death ends the replies
  drop();                // returns when the filler runs
}

void Filler::join(const ScratchCgroup& groups, const std::string& path) {
  groups.add(path, child_.pid());
}

std::optional<int> Filler::fill(std::int64_t pages) {
  return command('f', pages);
}

std::optional<int> Filler::hold(std::int64_t pages) {
  return command('h', pages);
}

void Filler::drop() {
  const std::optional<int> freed = command('d', 0);
  if (freed == 0) return;
  const std::string why = freed            ? "errno " + std::to_string(*freed)
                          : child_.ended() ? "it has ended"
                                           : "it does not answer";
  throw std::runtime_error("filler " + std::to_string(pid()) + " did not free its memory: " + why);
}

std::optional<int> Filler::command(char what, std::int64_t pages) {
  const Command command{what, pages};
  if (::write(command_write_.get(), &command, sizeof(command)) != sizeof(command)) {
    return std::nullopt;
  }
  pollfd readable{reply_read_.get(), POLLIN, 0};
  // Without huge pages, a gigabyte takes an emulated machine on busy CPUs minutes.
  const Duration patience = what == 'h' ? 4 * kPatience : kPatience;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  int result = 0;
  if (::poll(&readable, 1, static_cast<int>(ms)) != 1 ||
      ::read(reply_read_.get(), &result, sizeof(result)) != sizeof(result)) {
    return std::nullopt;
  }
  return result;
}

}  // namespace forestall::test
