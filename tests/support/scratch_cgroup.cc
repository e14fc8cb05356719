// SPDX-License-Identifier: Apache-2.0
#include "support/scratch_cgroup.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

Mounts find_mounts() {
  Mounts found;
  if (exists("/sys/fs/cgroup/memory/memory.usage_in_bytes")) {
    found.memory = "/sys/fs/cgroup/memory";
    found.v1 = true;
    if (exists("/sys/fs/cgroup/unified/cgroup.controllers")) {
      found.unified = "/sys/fs/cgroup/unified";
    }
  } else if (exists("/sys/fs/cgroup/cgroup.controllers")) {
    found.memory = found.unified = "/sys/fs/cgroup";
  } else {
    throw std::runtime_error("no memory cgroup hierarchy is mounted on this machine");
  }
  return found;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("write '" + text + "' to " + path);
}

void make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) throw std::runtime_error("mkdir " + path);
}

// A path that exists in no hierarchy. A killed test leaves its groups behind, and its pid may be
// reused.
std::string unique_path() {
  static int count = 0;
  for (;;) {
    std::string path = "/forestall-test-" + std::to_string(getpid()) + "-";
    path += std::to_string(count++);
    const bool taken = exists(mounts().memory + path) ||
                       (!mounts().unified.empty() && exists(mounts().unified + path));
    if (!taken) return path;
  }
}

// Kills a process of a scratch cgroup and waits until it is gone.
void end_process(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return;
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  pollfd exited{pidfd.get(), POLLIN, 0};
  poll(&exited, 1, 10'000);
  waitpid(pid, nullptr, WNOHANG);
}

}  // namespace

const Mounts& mounts() {
  static const Mounts found = find_mounts();
  return found;
}

ScratchCgroup::ScratchCgroup() : ScratchCgroup(unique_path()) {}

ScratchCgroup::ScratchCgroup(std::string path) : path_(std::move(path)) {
  if (exists(directory(path_))) throw std::runtime_error(directory(path_) + " exists already");
  if (!mounts().v1) write_text(mounts().memory + "/cgroup.subtree_control", "+memory +pids");
  make_directory(directory(path_));
  if (!mounts().unified.empty()) make_directory(unified_directory(path_));
  paths_.push_back(path_);
}

ScratchCgroup::~ScratchCgroup() {
  for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) {
    // A dying process may fork once more between listing and killing.
    for (int round = 0; round < 8; ++round) {
      const auto left = processes(*path);
      if (left.empty()) break;
      for (const pid_t pid : left) end_process(pid);
    }
    rmdir(directory(*path).c_str());
    if (mounts().v1 && !mounts().unified.empty()) rmdir(unified_directory(*path).c_str());
  }
}

std::string ScratchCgroup::child(const std::string& name) {
  std::string path = path_;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (!mounts().v1) write_text(directory(path) + "/cgroup.subtree_control", "+memory +pids");
    path += "/" + part;
    if (exists(directory(path))) continue;
    make_directory(directory(path));
    if (!mounts().unified.empty()) make_directory(unified_directory(path));
    paths_.push_back(path);
  }
  return path;
}

void ScratchCgroup::remove_child(const std::string& path) {
  if (rmdir(directory(path).c_str()) != 0) throw std::runtime_error("rmdir " + directory(path));
  if (mounts().v1 && !mounts().unified.empty()) rmdir(unified_directory(path).c_str());
  std::erase(paths_, path);
}

void ScratchCgroup::limit(const std::string& path, Bytes limit) const {
  write(path, mounts().v1 ? "memory.limit_in_bytes" : "memory.max", std::to_string(limit.count));
}

void ScratchCgroup::add(const std::string& path, pid_t pid) const {
  write_text(directory(path) + "/cgroup.procs", std::to_string(pid));
  if (mounts().v1 && !mounts().unified.empty()) {
    write_text(unified_directory(path) + "/cgroup.procs", std::to_string(pid));
  }
}

Bytes ScratchCgroup::usage(const std::string& path) const {
  return {std::stoll(read(path, mounts().v1 ? "memory.usage_in_bytes" : "memory.current"))};
}

std::uint64_t ScratchCgroup::oom_kills(const std::string& path) const {
  std::uint64_t sum = 0;
  for (const auto& each : paths_) {
    if (each != path && !each.starts_with(path + "/")) continue;
    std::istringstream text(read(each, mounts().v1 ? "memory.oom_control" : "memory.events.local"));
    std::string key;
    std::uint64_t value = 0;
    while (text >> key >> value) {
      if (key == "oom_kill") sum += value;
    }
  }
  return sum;
}

std::vector<pid_t> ScratchCgroup::processes(const std::string& path) const {
  std::vector<pid_t> pids;
  std::ifstream file(directory(path) + "/cgroup.procs");
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

std::string ScratchCgroup::read(const std::string& path, const std::string& file) const {
  return read_text(directory(path) + "/" + file);
}

void ScratchCgroup::write(const std::string& path, const std::string& file,
                          const std::string& text) const {
  write_text(directory(path) + "/" + file, text);
}

std::string ScratchCgroup::directory(const std::string& path) const {
  return mounts().memory + path;
}

std::string ScratchCgroup::unified_directory(const std::string& path) const {
  return mounts().unified + path;
}

}  // namespace forestall::test
