// SPDX-License-Identifier: Apache-2.0
#include "hostile/tenant_tricks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "hostile/tenant_offence.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

// Returns whether the kernel took the text.
bool put(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool move_to(const std::string& group, pid_t pid = getpid()) {
  return put(group + "/cgroup.procs", std::to_string(pid));
}

}  // namespace

pid_t TrickPlayer::start(const std::function<void()>& body) const {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  wait_for_end(lives_);
}

bool TrickPlayer::over() const {
  pollfd closed{lives_, 0, 0};
  return poll(&closed, 1, 0) == 1;
}

std::string TrickPlayer::group(const std::string& name) const {
  std::string path = place_.home + "/" + name;
  mkdir(path.c_str(), 0755);
  return path;
}

void TrickPlayer::dig_deep() const {
  const std::int64_t levels = dice_.between(70, 200);
  std::vector<std::string> above{place_.home};
  for (std::int64_t i = 0; i < levels; ++i) {
    const std::string next = above.back() + "/d";
    if (mkdir(next.c_str(), 0755) != 0) break;
    above.push_back(next);
  }
  move_to(above.back());
  if (mounts().v1 || dice_.one_in(2)) return;
  // v2: memory is now charged below the home too.
  for (const std::string& each : above) {
    if (!put(each + "/cgroup.subtree_control", "+memory")) return;
  }
}

void TrickPlayer::spread_wide(std::int64_t groups) const {
  for (std::int64_t i = 0; i < groups; ++i) {
    const std::string path = group("w" + std::to_string(i));
    if (i % 20 == 0 && i < 200) start([&] { move_to(path); });
  }
}

void TrickPlayer::use_odd_names() const {
  // The kernel refuses a newline; that stays in the list in case one does not.
  for (const char* name : {"a\nb", "\x1b]0;owned\x07\x1b[2J", "\xff\xfe", "c\rkilled", "*", "[a]?",
                           "..x", "t\tu", "\" \\u0000",
                           "\xc2\x9b"
                           "31m",
                           "x deleted", " (deleted)", "%s%n", "{}"}) {
    const std::string path = group(name);
    start([&] {
      prctl(PR_SET_NAME, "x) R 1 1\n\x1b[31m");
      move_to(path);
    });
  }
  prctl(PR_SET_NAME, "1 (a) Z 0\n) S 1");
}

void TrickPlayer::forge_xattrs() const {
  const std::string forged[] = {"max", "1", "0 1 1", std::string(4000, 'x'), "\n\x1b[31m"};
  for (const std::string& path : {place_.home, group("forged")}) {
    for (const char* key : {"user.forestall.memory_high", "user.forestall.owner", "user.x"}) {
      const std::string& value = forged[dice_.below(5)];
      setxattr(path.c_str(), key, value.data(), value.size(), 0);
    }
  }
}

void TrickPlayer::spread_threads() const {
  for (int i = 0; i < 8; ++i) {
    const std::string path = group("thread" + std::to_string(i));
    if (!mounts().v1) put(path + "/cgroup.type", "threaded");
    std::thread([path, lives = lives_] {
      put(path + (mounts().v1 ? "/tasks" : "/cgroup.threads"), std::to_string(syscall(SYS_gettid)));
      wait_for_end(lives);
    }).detach();
  }
}

void TrickPlayer::chain_forks() const {
  if (fork() != 0) return;
  while (!over()) {
    if (fork() > 0) _exit(0);
  }
  _exit(0);
}

void TrickPlayer::storm_forks() const {
  start([&] {
    signal(SIGCHLD, SIG_IGN);
    while (!over()) {
      for (int i = 0; i < 16; ++i) {
        if (fork() == 0) _exit(0);
      }
      poll(nullptr, 0, 1);
    }
  });
}

void TrickPlayer::storm_execs() const {
  // The shell's parent is this tenant's first process, or the process that adopts its orphans; the
  // directory of that one in /proc ends with the round.
  const std::string loop =
      "while [ -d /proc/" + std::to_string(getppid()) + " ]; do /bin/true; done";
  if (fork() == 0) {
    execl("/bin/sh", "sh", "-c", loop.c_str(), nullptr);
    _exit(127);
  }
}

void TrickPlayer::stop_processes() const {
  for (int i = 0; i < 5; ++i) start([] { raise(SIGSTOP); });
}

void TrickPlayer::freeze_processes() const {
  const std::string ice = group("ice");
  for (int i = 0; i < 5; ++i) move_to(ice, start([] {}));
  put(ice + "/cgroup.freeze", "1");
}

void TrickPlayer::leave_zombies() const {
  for (int i = 0; i < 20; ++i) {
    if (fork() == 0) _exit(0);
  }
}

void TrickPlayer::churn_groups() const {
  start([&] {
    for (unsigned i = 0; !over(); ++i) {
      const std::string path = group("churn" + std::to_string(i % 7));
      move_to(path);
      move_to(place_.home);
      rmdir(path.c_str());
      if (i % 16 == 0) poll(nullptr, 0, 1);
    }
  });
}

void TrickPlayer::rename_group() const {
  start([&] {
    const std::string other = place_.home + "-moved";
    for (;;) {
      if (over()) break;
      if (rename(place_.home.c_str(), other.c_str()) != 0) break;
      poll(nullptr, 0, 1);
      if (rename(other.c_str(), place_.home.c_str()) != 0) break;
      poll(nullptr, 0, 1);
    }
  });
}

void TrickPlayer::flood_file(int flags) const {
  start([&] {
    constexpr std::size_t kChunk = 1 << 20;
    const UniqueFd file(open(place_.file.c_str(), O_RDWR | O_CLOEXEC | flags));
    void* chunk = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!file || chunk == MAP_FAILED) return;
    const auto chunks = place_.file_size.count / static_cast<std::int64_t>(kChunk);
    for (std::int64_t i = 0; !over(); ++i) {
      const off_t at = i % chunks * static_cast<off_t>(kChunk);
      if (pwrite(file.get(), chunk, kChunk, at) < 0) return;
      if (pread(file.get(), chunk, kChunk, at) < 0) return;
    }
  });
}

void TrickPlayer::take_huge_page() const {
  start([] {
    void* area = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (area != MAP_FAILED) *static_cast<volatile char*>(area) = 1;
  });
}

void TrickPlayer::play(Trick trick) const {
  switch (trick) {
    case Trick::deep: return dig_deep();
    case Trick::wide: return spread_wide(dice_.between(50, 200));
    case Trick::very_wide: return spread_wide(2'000);
    case Trick::names: return use_odd_names();
    case Trick::xattrs: return forge_xattrs();
    case Trick::threads: return spread_threads();
    case Trick::fork_chain: return chain_forks();
    case Trick::fork_storm: return storm_forks();
    case Trick::exec_storm: return storm_execs();
    case Trick::stopped: return stop_processes();
    case Trick::frozen: return freeze_processes();
    case Trick::zombies: return leave_zombies();
    case Trick::churn: return churn_groups();
    case Trick::rename: return rename_group();
    case Trick::page_cache: return flood_file(0);
    case Trick::direct_io: return flood_file(O_DIRECT);
    case Trick::hugetlb: return take_huge_page();
    case Trick::zombie_leader:  // with the offence
    case Trick::stray_thread:   // by the test
    case Trick::recreate: return;
  }
}

}  // namespace forestall::test
