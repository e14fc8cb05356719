// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace forestall::cli {
namespace {

constexpr Duration kStartPatience = std::chrono::seconds(30);
constexpr Duration kEndPatience = std::chrono::seconds(10);

Result<UniqueFd> bind_notify_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return error("notify socket path too long: " + path);
  path.copy(address.sun_path, path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("socket", path);
  ::unlink(path.c_str());  // left by an earlier agent
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return errno_error("bind", path);
  }
  return fd;
}

// Whether `fd` became readable before `patience` ended or one of `others` (-1: none) was readable.
bool wait_readable(int fd, Duration patience, std::array<int, 2> others = {-1, -1}) {
  std::array<pollfd, 3> ready{{{fd, POLLIN, 0}, {others[0], POLLIN, 0}, {others[1], POLLIN, 0}}};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(ms, 0))) > 0 &&
         ready[0].revents != 0;
}

[[noreturn]] void become_agent(const std::string& executable,
                               const std::vector<std::string>& arguments, int output, int log,
                               const std::string& run_directory, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigset_t none;  // the parent may have blocked the signals that end the agent
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  setenv("NOTIFY_SOCKET", (run_directory + "/notify").c_str(), 1);
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>("forestall"));
  for (const char* each : {"agent", "--output", "json", "--run-dir"}) {
    argv.push_back(const_cast<char*>(each));
  }
  argv.push_back(const_cast<char*>(run_directory.c_str()));
  for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  execv(executable.c_str(), argv.data());
  _exit(127);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// READY=1 may arrive in any datagram. False if the agent ended or an interrupt came first.
bool wait_ready(int notify_fd, MonotonicTime deadline, std::array<int, 2> ends) {
  const SystemClock clock;
  while (wait_readable(notify_fd, deadline - clock.now(), ends)) {
    std::array<char, 1024> text{};
    const ssize_t size = recv(notify_fd, text.data(), text.size(), 0);
    if (size <= 0) return false;
    const std::string_view message(text.data(), static_cast<std::size_t>(size));
    if (message.find("READY=1") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

Result<AgentProcess> AgentProcess::start(const std::string& executable,
                                         const std::vector<std::string>& arguments,
                                         const std::string& run_directory, int interrupt_fd) {
  const std::string socket_path = run_directory + "/notify";
  const std::string log_path = run_directory + "/agent.log";
  const UniqueFd notify = TRY(bind_notify_socket(socket_path));
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return errno_error("open", log_path);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe2", "agent output");
  UniqueFd output(ends[0]);
  const UniqueFd agent_end(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork", "agent");
  if (pid == 0) {
    become_agent(executable, arguments, agent_end.get(), log.get(), run_directory, parent);
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  AgentProcess agent(pid, std::move(pidfd), std::move(output), log_path, interrupt_fd);
  if (!wait_ready(notify.get(), SystemClock().now() + kStartPatience,
                  {interrupt_fd, agent.pidfd_.get()})) {
    return error("the agent did not become ready; its log:\n" + text_of(log_path));
  }
  return agent;
}

AgentProcess::AgentProcess(AgentProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      output_(std::move(other.output_)),
      log_path_(std::move(other.log_path_)),
      interrupt_fd_(other.interrupt_fd_),
      pending_(std::move(other.pending_)) {}

AgentProcess::~AgentProcess() {
  if (pid_ <= 0) return;
  output_.reset();  // otherwise an agent that still writes would block on the pipe
  kill(pid_, SIGTERM);
  if (!wait_readable(pidfd_.get(), kEndPatience)) kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string AgentProcess::log() const {
  return text_of(log_path_);
}

bool AgentProcess::wait_for_log(const std::string& text, MonotonicTime deadline) const {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC));
  if (!watch || inotify_add_watch(watch.get(), log_path_.c_str(), IN_MODIFY) < 0) return false;
  const SystemClock clock;
  for (;;) {
    if (log().find(text) != std::string::npos) return true;
    if (!wait_readable(watch.get(), deadline - clock.now())) return false;
    std::array<char, 4096> events{};
    if (read(watch.get(), events.data(), events.size()) <= 0) return false;
  }
}

std::optional<int> AgentProcess::wait_end(MonotonicTime deadline) {
  if (pid_ <= 0 || !wait_readable(pidfd_.get(), deadline - SystemClock().now())) {
    return std::nullopt;
  }
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

std::optional<std::string> AgentProcess::next_record(MonotonicTime deadline) {
  const SystemClock clock;
  for (;;) {
    const auto end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (!wait_readable(output_.get(), deadline - clock.now(), {interrupt_fd_, -1})) {
      return std::nullopt;
    }
    std::array<char, 65536> chunk{};
    const ssize_t size = read(output_.get(), chunk.data(), chunk.size());
    if (size <= 0) return std::nullopt;
    pending_.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace forestall::cli
