// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "actuators/hook_run.h"
#include "base/parse.h"
#include "base/trusted_file.h"
#include "kernel/held_file.h"
#include "prekill/supervisor.h"

namespace forestall::actuators {
namespace {

using prekill::HookEnd;
using prekill::HookEndKind;

// Of the agent's processes only those of hooks have it (prekill/supervisor.cc become_hook()), and
// they cannot change it.
bool is_of_a_hook(pid_t pid) {
  const std::string name = fmt::format("/proc/{}/oom_score_adj", pid);
  const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  std::string buffer;
  if (!file) return false;
  const auto text = kernel::read_whole(file.get(), buffer, name);
  return text.ok() && *text == "1000\n";
}

// The children of each thread of this process.
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::error_code failure;
  // The increment of a range-for would throw.
  std::filesystem::directory_iterator task("/proc/self/task", failure);
  for (; !failure && task != std::filesystem::directory_iterator(); task.increment(failure)) {
    const std::string name = task->path().string() + "/children";
    const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    std::string buffer;
    if (!file) continue;
    const auto list = kernel::read_whole(file.get(), buffer, name);
    if (!list) continue;
    std::string_view rest = *list;
    while (const auto pid = parse_u64(next_word(rest))) {
      children.push_back(static_cast<pid_t>(*pid));
    }
  }
  return children;
}

// Kills and reaps what this process adopted from a supervisor that was killed (see
// adopt_orphans()). Returns one that has not ended yet; none: there is none left. What an orphan
// leaves is adopted in turn. Ends none if the agent itself has the oom_score_adj of hooks, which
// its supervisors inherit: they and the orphans then cannot be distinguished.
UniqueFd end_orphans() {
  if (is_of_a_hook(::getpid())) return {};
  for (bool found = true; found;) {
    found = false;
    for (const pid_t pid : own_children()) {
      if (!is_of_a_hook(pid)) continue;
      found = true;
      ::kill(pid, SIGKILL);  // not reaped yet, so the pid is its own
      if (::waitpid(pid, nullptr, WNOHANG) != 0) continue;
      // Without a descriptor there is nothing to wait for; the next run that loses its supervisor
      // reaps it.
      return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    }
  }
  return {};
}

class ProgramRun final : public HookRun {
 public:
  ProgramRun(pid_t pid, UniqueFd process, UniqueFd control, UniqueFd status)
      : pid_(pid),
        process_(std::move(process)),
        control_(std::move(control)),
        status_(std::move(status)) {}
  // Hung up, the supervisor ends what is left.
  ~ProgramRun() override = default;

  [[nodiscard]] pollfd awaited() const override {
    if (orphan_) return {orphan_.get(), POLLIN, 0};
    return {status_ ? status_.get() : process_.get(), POLLIN, 0};
  }

  [[nodiscard]] std::optional<HookResult> advance() override {
    HookEnd end;
    const ssize_t size = ::read(status_.get(), &end, sizeof end);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    status_.reset();
    HookResult result;
    result.state = HookState::failed;
    if (size != sizeof end) {
      result.problem = "its supervisor ended";
    } else {
      take(end, result);
    }
    return result;
  }

  void end() override {
    status_.reset();
    control_.reset();
  }

  [[nodiscard]] bool is_gone() override {
    if (pid_ > 0) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == 0) return false;
      pid_ = 0;
      if (WIFSIGNALED(status)) orphan_ = end_orphans();
    } else if (orphan_) {
      orphan_ = end_orphans();
    }
    return !orphan_;
  }

 private:
  static void take(const HookEnd& end, HookResult& result) {
    switch (end.kind) {
      case HookEndKind::exited:
        result.exit_code = end.value;
        if (end.value == 0) result.state = HookState::succeeded;
        break;
      case HookEndKind::signalled:
        result.exit_code = 128 + end.value;
        result.problem = fmt::format("ended by signal {}", end.value);
        break;
      case HookEndKind::timed_out: result.state = HookState::timed_out; break;
      case HookEndKind::not_started:
        result.state = HookState::refused;
        result.problem = Error{end.value, "exec"}.text();
        break;
    }
  }

  pid_t pid_;  // 0: waited for
  UniqueFd process_;
  UniqueFd control_;  // closed: the supervisor ends all
  UniqueFd status_;   // closed: the result is there, or not wanted
  UniqueFd orphan_;   // one of those that its killed supervisor left; closed: none is known
};

struct PipeEnds {
  UniqueFd read;
  UniqueFd write;
};

Result<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe2", "for a prekill hook");
  return PipeEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A file that the hook may read at its own speed, or not at all.
Result<UniqueFd> make_input(const std::string& text) {
  UniqueFd file(static_cast<int>(::syscall(SYS_memfd_create, "hook-input", MFD_CLOEXEC)));
  if (!file) return errno_error("memfd_create", "for a prekill hook");
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t size = ::write(file.get(), rest.data(), rest.size());
    if (size < 0) return errno_error("write", "the input of a prekill hook");
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
  if (::lseek(file.get(), 0, SEEK_SET) < 0) return errno_error("lseek", "memfd");
  return file;
}

// Descriptors above the supervisor's own, so that none of the dup2() of a spawn closes another.
Result<UniqueFd> moved_up(UniqueFd fd) {
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, prekill::kStatusFd + 1));
  if (!moved) return errno_error("fcntl F_DUPFD_CLOEXEC", "for a prekill hook");
  return moved;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t all;
    sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  void give(int fd, int as) { ::posix_spawn_file_actions_adddup2(&actions_, fd, as); }

  [[nodiscard]] int spawn(const std::string& program, char* const* arguments, pid_t& pid) {
    // Descriptors that another thread opened without O_CLOEXEC.
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, prekill::kStatusFd + 1);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char* no_environment[] = {nullptr};
    return ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, arguments, no_environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<void> adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return errno_error("prctl", "PR_SET_CHILD_SUBREAPER, for prekill hooks");
  }
  return {};
}

Result<std::unique_ptr<HookRun>> start_program(const HookRequest& request,
                                               const std::string& supervisor, MonotonicTime now) {
  // A relative one would be searched in the agent's working directory.
  if (!supervisor.starts_with('/')) return Error{ENOENT, supervisor + " is not installed"};
  UniqueFd opened = TRY(open_trusted_program(request.hook.program));
  const UniqueFd program = TRY(moved_up(std::move(opened)));
  UniqueFd written = TRY(make_input(request.input));
  const UniqueFd input = TRY(moved_up(std::move(written)));
  PipeEnds control = TRY(make_pipe());
  PipeEnds status = TRY(make_pipe());
  const UniqueFd hung_up = TRY(moved_up(std::move(control.read)));
  const UniqueFd reported = TRY(moved_up(std::move(status.write)));
  if (::fcntl(status.read.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("fcntl", "pipe");

  SpawnSettings settings;
  settings.give(input.get(), STDIN_FILENO);
  settings.give(program.get(), prekill::kProgramFd);
  settings.give(hung_up.get(), prekill::kControlFd);
  settings.give(reported.get(), prekill::kStatusFd);

  const auto left = std::chrono::ceil<std::chrono::milliseconds>(request.until - now).count();
  std::vector<std::string> words{"forestall-prekill", std::to_string(left), request.hook.program};
  words.insert(words.end(), request.hook.arguments.begin(), request.hook.arguments.end());
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);

  pid_t pid = 0;
  if (const int code = settings.spawn(supervisor, arguments.data(), pid); code != 0) {
    return Error{code, "start " + supervisor};
  }
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return std::unique_ptr<HookRun>(std::make_unique<ProgramRun>(
      pid, std::move(process), std::move(control.write), std::move(status.read)));
}

}  // namespace forestall::actuators
