// SPDX-License-Identifier: Apache-2.0
#include "prekill/supervisor.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace forestall::prekill {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kFailed = 1;
constexpr int kNotExecuted = 127;
constexpr rlim_t kOpenFilesMax = 1024;

void report(HookEndKind kind, int value) {
  const HookEnd end{kind, value};
  // If the agent has ended, the write fails, and SIGPIPE is ignored.
  while (::write(kStatusFd, &end, sizeof end) < 0 && errno == EINTR) {
  }
}

// The permitted set is empty afterwards, and no_new_privs keeps it empty across exec.
bool drop_privileges() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 || errno == EINVAL) &&
         ::syscall(SYS_capset, &header, none.data()) == 0;
}

void write_file(const char* path, std::string_view text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  // A hook without it runs as well: the kernel then has no preference for it.
  if (file && ::write(file.get(), text.data(), text.size()) < 0) return;
}

// Those of the agent permit real-time priority and locked memory. Lowering them never fails.
void set_limits() {
  const rlimit files{kOpenFilesMax, kOpenFilesMax};
  ::setrlimit(RLIMIT_NOFILE, &files);
  const rlimit none{0, 0};
  for (const auto resource : {RLIMIT_CORE, RLIMIT_RTPRIO, RLIMIT_NICE, RLIMIT_MEMLOCK}) {
    ::setrlimit(resource, &none);
  }
}

// In the new process.
[[noreturn]] void become_hook(char** arguments, pid_t supervisor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(kNotExecuted);
  ::setsid();
  sigset_t no_signals;
  sigemptyset(&no_signals);
  ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // With CAP_SYS_RESOURCE it also becomes the lowest value that the hook may set.
  write_file("/proc/self/oom_score_adj", "1000");
  set_limits();
  if (!drop_privileges()) {
    report(HookEndKind::not_started, errno);
    ::_exit(kNotExecuted);
  }
  ::umask(077);
  std::array<char*, 3> environment{const_cast<char*>("PATH=/usr/sbin:/usr/bin:/sbin:/bin"),
                                   const_cast<char*>("LANG=C"), nullptr};
  if (::chdir("/") == 0) ::fexecve(kProgramFd, arguments, environment.data());
  report(HookEndKind::not_started, errno);
  ::_exit(kNotExecuted);
}

class Supervisor {
 public:
  Supervisor(pid_t hook, int children_fd, int signals_fd)
      : hook_(hook), children_(children_fd), signals_(signals_fd) {}

  // Returns when the hook has ended or must end.
  void wait(SteadyClock::time_point until) {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()).count();
      if (left <= 0) return report(HookEndKind::timed_out, 0);
      std::array<pollfd, 2> fds{{{signals_, POLLIN, 0}, {kControlFd, POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), static_cast<int>(left)) <= 0) continue;
      if (fds[1].revents != 0) return;
      signalfd_siginfo ignored{};
      if (::read(signals_, &ignored, sizeof ignored) < 0 && errno != EAGAIN) return;
      if (hook_has_ended()) return;
      reap_others();
    }
  }

  // Kills and waits until there is no process left.
  void end_all() {
    // Until it is waited for, its process group cannot be another one's.
    ::kill(-hook_, SIGKILL);
    do {
      kill_children();
    } while (::waitpid(-1, nullptr, 0) >= 0 || errno == EINTR);
  }

 private:
  bool hook_has_ended() {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(hook_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) {
      return true;
    }
    if (ended.si_pid == 0) return false;
    report(ended.si_code == CLD_EXITED ? HookEndKind::exited : HookEndKind::signalled,
           ended.si_status);
    return true;
  }

  // What left the hook and ended while the hook runs.
  void reap_others() {
    siginfo_t ended{};
    while (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0 &&
           ended.si_pid != hook_) {
      ::waitpid(ended.si_pid, nullptr, 0);
      ended = {};
    }
  }

  // Direct children only: those of one that is killed become children of this process.
  void kill_children() {
    std::array<char, 4096> list{};
    const ssize_t size = ::pread(children_, list.data(), list.size(), 0);
    if (size <= 0) return;
    std::string_view rest(list.data(), static_cast<std::size_t>(size));
    // The last pid may be cut off; the next list has it.
    for (std::size_t blank = rest.find(' '); blank != std::string_view::npos;
         blank = rest.find(' ')) {
      pid_t pid = 0;
      std::from_chars(rest.data(), rest.data() + blank, pid);
      if (pid > 0) ::kill(pid, SIGKILL);
      rest.remove_prefix(blank + 1);
    }
  }

  const pid_t hook_;
  const int children_;
  const int signals_;
};

// Its own children, of its only thread.
UniqueFd open_children() {
  return UniqueFd(::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC));
}

UniqueFd block_child_signals() {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &children, nullptr) != 0) return {};
  return UniqueFd(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

int supervise(char** arguments) {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(std::atoll(arguments[0]));
  ::signal(SIGPIPE, SIG_IGN);
  for (const int own : {kControlFd, kStatusFd}) ::fcntl(own, F_SETFD, FD_CLOEXEC);
  const UniqueFd children = open_children();
  const UniqueFd signals = block_child_signals();
  // Without the list of its children it could not end them, and nothing is started.
  if (!children || !signals || ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    report(HookEndKind::not_started, errno);
    return kFailed;
  }
  const pid_t supervisor_pid = ::getpid();
  const pid_t hook = ::fork();
  if (hook == 0) become_hook(arguments + 1, supervisor_pid);
  if (hook < 0) {
    report(HookEndKind::not_started, errno);
    return kFailed;
  }
  Supervisor supervisor(hook, children.get(), signals.get());
  // It may signal its children without a capability: they have its user.
  if (drop_privileges()) supervisor.wait(until);
  supervisor.end_all();
  return 0;
}

}  // namespace forestall::prekill
