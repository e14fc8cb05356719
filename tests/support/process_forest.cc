// SPDX-License-Identifier: Apache-2.0
#include "support/process_forest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::int64_t kFilePages = 2048;
constexpr int kDepth = 3;  // below the root: four levels of cgroups
constexpr uid_t kNobodyUser = 65534;

// A process sends this when it has all its memory.
struct Ready {
  pid_t pid = 0;
  pid_t sharer_pid = 0;
  int failed_at = 0;  // line of this file; 0: all is well
};

// A file whose page cache counts as file pages; that of tmpfs does not. The VMs have only tmpfs and
// a RAM disk. The test reads it here, so that no cgroup of a forest is charged for readahead pages,
// which reclaim would take away again.
UniqueFd open_file_pages() {
  UniqueFd file(::open("/dev/ram0", O_RDONLY | O_CLOEXEC));
  const off_t bytes = kFilePages * static_cast<off_t>(kPage);
  if (!file || ::lseek(file.get(), 0, SEEK_END) < bytes) {
    std::string path = "/var/tmp/forestall-forest-XXXXXX";
    file = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
    if (!file || ::ftruncate(file.get(), bytes) != 0) {
      throw std::runtime_error("mkostemp " + path);
    }
    ::unlink(path.c_str());
  }
  std::array<char, kPage> page{};
  for (std::int64_t at = 0; at < kFilePages; ++at) {
    if (::pread(file.get(), page.data(), page.size(), at * static_cast<off_t>(kPage)) !=
        static_cast<ssize_t>(kPage)) {
      throw std::runtime_error("the file of the forest cannot be read");
    }
  }
  return file;
}

bool write_file(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::size_t size = std::strlen(text);
  const bool written = ::write(fd, text, size) == static_cast<ssize_t>(size);
  ::close(fd);
  return written;
}

// Maps and touches that many single pages (no huge pages).
bool take(std::int64_t pages, int flags, int fd, bool lock) {
  if (pages == 0) return true;
  const std::size_t size = static_cast<std::size_t>(pages) * kPage;
  const int protection = fd >= 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  void* area = ::mmap(nullptr, size, protection, flags, fd, 0);
  if (area == MAP_FAILED) return false;
  ::madvise(area, size, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile unsigned char*>(area);
  for (std::size_t at = 0; at < size; at += kPage) {
    if (fd >= 0) {
      [[maybe_unused]] const unsigned char touched = bytes[at];
    } else {
      bytes[at] = 1;
    }
  }
  return !lock || ::mlock(area, size) == 0;
}

[[noreturn]] void stand_still() {
  for (;;) ::pause();
}

// Dies with the test. Called after setuid, which clears the setting.
bool die_with(pid_t parent) {
  return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
}

// The body of a process: it takes its memory, then sleeps until it is killed.
class Life {
 public:
  Life(const ForestProcess& plan, pid_t parent, int file, int ready)
      : plan_(plan), parent_(parent), file_(file), ready_(ready) {}

  [[noreturn]] void live() {
    ready_message_.pid = ::getpid();
    const std::string adj = std::to_string(plan_.oom_score_adj);
    if (!write_file("/proc/self/oom_score_adj", adj.c_str())) fail(__LINE__);
    const int shared = MAP_SHARED | MAP_ANONYMOUS;
    if (!take(plan_.anon, MAP_PRIVATE | MAP_ANONYMOUS, -1, false)) fail(__LINE__);
    if (!take(plan_.shmem, shared, -1, true)) fail(__LINE__);
    if (!take(plan_.file, MAP_SHARED, file_, true)) fail(__LINE__);
    for (int i = 0; i < plan_.threads; ++i) std::thread([] { stand_still(); }).detach();
    if (plan_.other_user && ::setuid(kNobodyUser) != 0) fail(__LINE__);
    if (!die_with(parent_)) fail(__LINE__);
    if (plan_.sharer != Sharer::none) share();
    if (plan_.leader_gone) leave_to_a_thread();
    say_ready();
    stand_still();
  }

 private:
  [[noreturn]] void fail(int line) {
    ready_message_.failed_at = line;
    say_ready();
    ::_exit(1);
  }

  void say_ready() {
    if (::write(ready_, &ready_message_, sizeof(ready_message_)) != sizeof(ready_message_)) {
      ::_exit(1);
    }
  }

  void share() {
    constexpr std::size_t kStack = 64 << 10;
    void* stack =
        ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) fail(__LINE__);
    void* top = static_cast<unsigned char*>(stack) + kStack;
    const bool vfork = plan_.sharer == Sharer::vfork;
    const int flags = CLONE_VM | SIGCHLD | (vfork ? CLONE_VFORK : CLONE_PARENT);
    const auto body = [](void* self) -> int {
      auto* life = static_cast<Life*>(self);
      // The parent of a vfork child cannot send any more, so the child does.
      if (life->plan_.sharer == Sharer::vfork) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        life->ready_message_.sharer_pid = static_cast<pid_t>(::syscall(SYS_getpid));
        life->say_ready();
      } else {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      }
      stand_still();
    };
    ready_message_.sharer_pid = ::clone(body, top, flags, this);
    if (ready_message_.sharer_pid < 0) fail(__LINE__);
    // Runs after the end of the vfork child.
    if (vfork) ::_exit(0);
  }

  [[noreturn]] void leave_to_a_thread() {
    std::thread([this] {
      say_ready();
      stand_still();
    }).detach();
    ::syscall(SYS_exit, 0);
    __builtin_unreachable();
  }

  const ForestProcess& plan_;
  pid_t parent_;
  int file_;
  int ready_;
  Ready ready_message_;
};

// Third word of /proc/PID/task/TID/stat, after the name in parentheses.
char state_of(const fs::path& task) {
  const std::string text = read_text(task / "stat");
  const auto at = text.rfind(')');
  return at == std::string::npos || at + 2 >= text.size() ? '?' : text[at + 2];
}

// Whether all its threads sleep: in stand_still(), or as the parent of a vfork child.
bool stands_still(pid_t pid, bool leader_gone) {
  const fs::path leader = fmt::format("/proc/{}/task/{}", pid, pid);
  for (const auto& task : fs::directory_iterator(leader.parent_path())) {
    const char state = state_of(task.path());
    const bool gone = leader_gone && task.path() == leader;
    if (gone ? state != 'Z' : state != 'S' && state != 'D') return false;
  }
  return true;
}

// The first usable CPU: the kernel counts pages of processes on one CPU alike.
int first_cpu() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof(allowed), &allowed);
  int cpu = 0;
  while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed)) ++cpu;
  return cpu;
}

void wait_until_still(pid_t pid, bool leader_gone) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!stands_still(pid, leader_gone)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(fmt::format("process {} does not become idle", pid));
    }
    ::sched_yield();
  }
}

}  // namespace

ProcessForest::ProcessForest(const ForestShape& shape) : file_(open_file_pages()) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  ready_read_ = UniqueFd(ends[0]);
  ready_write_ = UniqueFd(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Dice dice(shape.seed);
  grow_tree(shape, dice);
  for (int i = 0; i < shape.processes; ++i) processes_.push_back(plan(shape, dice));
  alive_.reserve(2 * processes_.size());
  ForestProcess equal;
  equal.anon = shape.most_pages * 4;
  equal.oom_score_adj = static_cast<std::int32_t>(dice.between(0, 200));
  std::vector<std::size_t> equals;
  // All of them start in one cgroup: even the length of its path could change a page count.
  equal.path = homes_.front();
  for (int i = 0; i < shape.equals; ++i) {
    equals.push_back(processes_.size());
    processes_.push_back(equal);
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    start(processes_[i], i >= static_cast<std::size_t>(shape.processes));
  }
  shuffle_into_place(std::move(equals), dice);
}

ProcessForest::~ProcessForest() {
  for (const pid_t pid : alive_) ::kill(pid, SIGKILL);
  for (const pid_t pid : alive()) wait_end(pid);
  // Later code of this process does not reap unknown children, and they would stay.
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void ProcessForest::grow_tree(const ForestShape& shape, Dice& dice) {
  paths_.push_back(root());
  grow_groups(root(), 0, dice);
  // On v2 a group that enables controllers for its children has no processes of its own.
  for (const std::string& path : paths_) {
    const bool inner = std::any_of(paths_.begin(), paths_.end(), [&](const std::string& other) {
      return other.starts_with(path + "/");
    });
    if (mounts().v1 || !inner) homes_.push_back(path);
    if (!mounts().v1 && dice.one_in((path == root() ? 4 : 1) * shape.whole_one_in)) {
      groups_.write(path, "memory.oom.group", "1");
      wholes_.push_back(path);
    }
  }
}

void ProcessForest::grow_groups(const std::string& at, int level, Dice& dice) {
  const auto fan_out = level == 0 ? dice.between(2, 3) : dice.between(0, 3);
  for (std::int64_t i = 0; level < kDepth && i < fan_out; ++i) {
    // Names in random order: the kernel orders by age.
    const std::string below = at.substr(root().size());
    const std::string name = fmt::format("{}/{:c}{}", below, 'a' + dice.below(26), i);
    const std::string path = groups_.child(name.substr(1));
    paths_.push_back(path);
    grow_groups(path, level + 1, dice);
  }
}

ForestProcess ProcessForest::plan(const ForestShape& shape, Dice& dice) const {
  ForestProcess made;
  made.path = homes_[dice.below(homes_.size())];
  made.anon = dice.between(64, shape.most_pages);
  if (dice.one_in(3)) made.shmem = dice.between(1, shape.most_pages);
  if (dice.one_in(3)) made.file = dice.between(1, std::min(shape.most_pages, kFilePages));
  std::int64_t adj = 0;
  switch (dice.below(10)) {
    case 0: adj = -1000; break;
    case 1: adj = -999; break;
    case 2: adj = 1000; break;
    case 3:
    case 4: adj = dice.between(-998, 999); break;
    case 5:
    case 6: adj = dice.between(-30, 30); break;
    default: break;
  }
  made.oom_score_adj = std::max(static_cast<std::int32_t>(adj), shape.lowest_adj);
  if (!shape.corners) return made;
  if (dice.one_in(4)) made.threads = static_cast<int>(dice.between(1, 3));
  made.other_user = dice.one_in(6);
  switch (dice.below(10)) {
    case 0: made.sharer = Sharer::clone; break;
    case 1: made.sharer = Sharer::vfork; break;
    case 2: made.leader_gone = true; break;
    default: break;
  }
  return made;
}

void ProcessForest::start(ForestProcess& process, bool pinned) {
  const pid_t parent = ::getpid();
  process.pid = ::fork();
  if (process.pid < 0) throw std::runtime_error("fork");
  if (process.pid == 0) {
    if (pinned) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(first_cpu(), &one);
      if (::sched_setaffinity(0, sizeof(one), &one) != 0) ::_exit(1);
    }
    groups_.add(process.path, ::getpid());
    Life(process, parent, file_.get(), ready_write_.get()).live();
  }
  alive_.push_back(process.pid);
  await(process);
}

void ProcessForest::await(ForestProcess& process) {
  pollfd readable{ready_read_.get(), POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  Ready ready;
  if (::poll(&readable, 1, static_cast<int>(ms)) != 1 ||
      ::read(ready_read_.get(), &ready, sizeof(ready)) != sizeof(ready) || ready.failed_at != 0) {
    throw std::runtime_error(
        fmt::format("process {} did not come up (line {})", process.pid, ready.failed_at));
  }
  process.sharer_pid = ready.sharer_pid;
  if (ready.sharer_pid != 0) alive_.push_back(ready.sharer_pid);
  // Threads still touch their stacks before they sleep, and an exiting leader still has its memory.
  // There is no event for the end of that, so this polls.
  wait_until_still(process.pid, process.leader_gone);
  if (ready.sharer_pid != 0) wait_until_still(ready.sharer_pid, false);
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", process.pid))) {
    process.tasks.push_back(std::stoi(task.path().filename()));
  }
}

void ProcessForest::shuffle_into_place(std::vector<std::size_t> which, Dice& dice) {
  for (std::size_t left = which.size(); left > 1; --left) {
    std::swap(which[left - 1], which[dice.below(left)]);
  }
  for (const std::size_t each : which) {
    ForestProcess& process = processes_[each];
    process.path = homes_[dice.below(homes_.size())];
    // Those that stay also leave once and return, or they would remain first in their list.
    if (process.path == homes_.front()) groups_.add(homes_.back(), process.pid);
    groups_.add(process.path, process.pid);
  }
}

std::optional<int> ProcessForest::wait_end(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd exited{pidfd.get(), POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  int status = 0;
  if (::poll(&exited, 1, static_cast<int>(ms)) != 1) return std::nullopt;
  // A vfork child belongs to its parent until the parent is reaped; then the test can reap it.
  ::waitpid(pid, &status, __WALL);
  std::erase(alive_, pid);
  return status;
}

std::vector<pid_t> ProcessForest::ended() {
  std::vector<pid_t> gone;
  for (const pid_t pid : alive()) {
    if (::waitpid(pid, nullptr, WNOHANG | __WALL) == pid) gone.push_back(pid);
  }
  for (const pid_t pid : gone) std::erase(alive_, pid);
  return gone;
}

std::string ProcessForest::text() const {
  std::string text;
  for (const ForestProcess& each : processes_) {
    text +=
        fmt::format("{:>7} {} adj {} anon {} shmem {} file {} threads {}{}{}{}\n", each.pid,
                    each.path, each.oom_score_adj, each.anon, each.shmem, each.file, each.threads,
                    each.leader_gone ? " leader-gone" : "", each.other_user ? " other_user" : "",
                    each.sharer_pid == 0
                        ? ""
                        : fmt::format(" {} {}", each.sharer == Sharer::vfork ? "vfork" : "shares",
                                      each.sharer_pid));
  }
  return text;
}

KernelSetting::KernelSetting(std::string path, const std::string& value)
    : path_(std::move(path)), before_(read_text(path_)) {
  std::ofstream file(path_);
  if (!(file << value << std::flush)) throw std::runtime_error("write " + path_);
}

KernelSetting::~KernelSetting() {
  std::ofstream(path_) << before_;
}

}  // namespace forestall::test
