// SPDX-License-Identifier: Apache-2.0
#include "hostile/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace forestall::test {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLimit = mib(64);
constexpr Bytes kThreshold = mib(20);
// What an offence leaves below the limit. With the file it is less than the threshold.
constexpr Bytes kLeft = mib(6);
constexpr Bytes kFile = mib(8);
constexpr Bytes kBystander = mib(3);
// A kill takes milliseconds. Only a failing round waits this long.
constexpr Duration kDeath = std::chrono::seconds(20);
constexpr Duration kRecord = std::chrono::seconds(10);
// By then, an offence that reaches the threshold has reached it.
constexpr Duration kOffence = std::chrono::seconds(3);
// Longer than releaseTimeout: if memory outlives the tenant, this is when the next victim would be.
constexpr Duration kAfterwards = std::chrono::milliseconds(2500);

// A key of this process, since several campaigns may run.
const key_t kSegment = static_cast<key_t>(0x4f000000 + getpid());

void hold_memory(Bytes size) {
  const auto length = static_cast<std::size_t>(size.count);
  void* area = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::size_t at = 0; at < length; at += 4096) static_cast<volatile char*>(area)[at] = 1;
}

[[noreturn]] void wait_for_kill() {
  for (;;) pause();
}

void write_file(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) < 0) {
    throw std::runtime_error("write '" + text + "' to " + path);
  }
}

void give_to_tenant(const std::string& path) {
  if (chown(path.c_str(), kTenantUser, kTenantUser) != 0 && errno != ENOENT) {
    throw std::runtime_error("chown " + path);
  }
}

// The directory of a scratch filesystem is closed to other users.
void open_to_tenant(const std::string& path, mode_t mode) {
  const fs::path above = fs::path(path).parent_path();
  if (chmod(path.c_str(), mode) != 0 || chmod(above.c_str(), 0711) != 0) {
    throw std::runtime_error("chmod " + path);
  }
}

bool lists(const std::string& procs, pid_t wanted) {
  std::ifstream file(procs);
  for (pid_t pid = 0; file >> pid;) {
    if (pid == wanted) return true;
  }
  return false;
}

// Signals the processes of a group and of those below it.
void end_processes(const std::string& group) {
  std::vector<std::string> groups{group};
  for (const auto& each : fs::recursive_directory_iterator(group)) {
    if (each.is_directory()) groups.push_back(each.path());
  }
  for (const std::string& each : groups) {
    const std::string procs = each + "/cgroup.procs";
    std::ifstream file(procs);
    for (pid_t pid = 0; file >> pid;) {
      const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      // Still listed: the pid was not reused before the descriptor was open.
      if (pidfd && lists(procs, pid)) {
        syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      }
    }
  }
}

// Whether the record of a kill has a reason why the victim may live.
bool gives_reason(const v1::Record& record) {
  const auto reason = record.decision().reason();
  if (reason == v1::Decision::ALL_PROTECTED || reason == v1::Decision::NO_CANDIDATES) return true;
  if (!record.has_outcome()) return false;
  const auto state = record.outcome().state();
  return state == v1::KillProgress::STUCK || state == v1::KillProgress::FAILED;
}

}  // namespace

Arena::Arena(AgentMode mode)
    : tenants_(scratch_.child("tenants")),
      disk_(ScratchKind::ext4, mib(24), 64),
      tmpfs_(ScratchKind::tmpfs, kLimit, 64) {
  scratch_.limit(scratch_.path(), kLimit);
  if (!mounts().v1) scratch_.write(tenants_, "cgroup.subtree_control", "+memory +pids");
  // cgroup v1: the tenant may also create groups next to its home, and rename its home.
  if (mounts().v1) give_to_tenant(scratch_.directory(tenants_));
  open_to_tenant(disk_.path(), 0755);
  open_to_tenant(tmpfs_.path(), 01777);
  std::ofstream(disk_ / "file") << std::string(static_cast<std::size_t>(kFile.count), 'f');
  give_to_tenant(disk_ / "file");
  add_protected_with_thread(scratch_.child("keep"));
  add_bystander("neighbour-died", "calm", scratch_.child("calm"));
  add_bystander("neighbour-died", "peer", scratch_.child("peer"));
  add_bystander("outside-died", "outside", scratch_.child("outside"));
  std::vector<std::string> disabled;
  if (mode == AgentMode::files) disabled = {"bpf"};
  agent_ = std::make_unique<AgentRun>(config(mode), disabled);
  if (agent_->failure()) throw std::runtime_error(agent_->failure()->text());
}

Arena::~Arena() {
  end_tenant();
  remove_what_is_left();
}

// Rounds follow each other faster than the limit of kills per time allows: it has tests of its own.
std::string Arena::config(AgentMode mode) const {
  const std::string& at = scratch_.path();
  return fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nguard: {}\nreleaseTimeout: 2s\n"
      "recheckInterval: 200ms\nkillLimit: {{node: 1000, other: 1000}}\nwatch:\n  - {{cgroup: {}, "
      "available: {}Mi}}\nworkloads:\n"
      "  - {{cgroup: {}/keep, priority: 0, protected: true}}\n"
      "  - {{cgroup: {}/calm, priority: 10, memoryRequest: 16Mi}}\n"
      "  - {{cgroup: {}/peer, priority: 0, memoryRequest: 16Mi}}\n"
      "  - {{cgroup: '{}/*', priority: 0, memoryRequest: 1Mi}}\n",
      mode == AgentMode::guard ? "on" : "off", at, kThreshold.count >> 20, at, at, at, tenants_);
}

void Arena::add_bystander(const std::string& kind, const std::string& name,
                          const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const UniqueFd ready(ends[0]);
  UniqueFd write_end(ends[1]);
  innocents_.push_back({kind, name, Child([&]() -> int {
                          scratch_.add(path, getpid());
                          hold_memory(kBystander);
                          if (write(write_end.get(), "r", 1) != 1) return 1;
                          wait_for_kill();
                        })});
  write_end.reset();
  char answer = 0;
  if (read(ready.get(), &answer, 1) != 1) throw std::runtime_error(name + " did not start");
}

void Arena::add_protected_with_thread(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const UniqueFd ready(ends[0]);
  UniqueFd write_end(ends[1]);
  innocents_.push_back({"protected-died", "keep", Child([&]() -> int {
                          scratch_.add(path, getpid());
                          hold_memory(kBystander);
                          std::thread([&] {
                            const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
                            if (write(write_end.get(), &tid, sizeof(tid)) < 0) _exit(1);
                            wait_for_kill();
                          }).detach();
                          wait_for_kill();
                        })});
  write_end.reset();
  if (read(ready.get(), &stray_tid_, sizeof(stray_tid_)) != sizeof(stray_tid_)) {
    throw std::runtime_error("keep did not start");
  }
}

void Arena::make_home(Round& round) {
  const char* odd = round.plan.has(Trick::names) ? " \x1b[31m\xff*keep" : "";
  round.home = fmt::format("{}/t{}{}", tenants_, homes_.size(), odd);
  const std::string directory = scratch_.directory(round.home);
  if (mkdir(directory.c_str(), 0755) != 0) throw std::runtime_error("mkdir " + directory);
  for (const char* file :
       {"", "/cgroup.procs", "/tasks", "/cgroup.threads", "/cgroup.subtree_control"}) {
    give_to_tenant(directory + file);
  }
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) throw std::runtime_error("stat " + directory);
  round.cgroup_id = status.st_ino;
  homes_.insert(round.cgroup_id);
}

TenantPlace Arena::place_of(const Round& round) const {
  return {scratch_.directory(round.home), tmpfs_.path(), disk_ / "file", kFile, kSegment};
}

void Arena::move_stray_thread(const std::string& path) const {
  write_file(scratch_.directory(path) + "/tasks", std::to_string(stray_tid_));
}

Bytes Arena::available() const {
  std::istringstream text(scratch_.read(scratch_.path(), "memory.stat"));
  const std::string wanted = mounts().v1 ? "total_inactive_file" : "inactive_file";
  std::string key;
  std::int64_t value = 0;
  while (text >> key >> value && key != wanted) {
  }
  return kLimit - scratch_.usage(scratch_.path()) + Bytes{key == wanted ? value : 0};
}

bool Arena::populated() const {
  const std::string events = scratch_.unified_directory(tenants_) + "/cgroup.events";
  return read_text(events).find("populated 1") != std::string::npos;
}

void Arena::await_end(Round& round, const Tenant& tenant) {
  const std::string path = scratch_.unified_directory(tenants_) + "/cgroup.events";
  const UniqueFd events(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, tenant.pid(), 0)));
  const MonotonicTime begin = SystemClock().now();
  while (populated()) {
    const Duration waited = SystemClock().now() - begin;
    // One process may be enough for the kernel; the tenant's other ones then live on.
    if (scratch_.oom_kills(scratch_.path()) > round.oom_kills) break;
    round.result.not_short = waited > kOffence && available() >= kThreshold;
    if (round.result.not_short || waited > kDeath) break;
    std::array<char, 256> text{};
    if (pread(events.get(), text.data(), text.size(), 0) < 0) throw std::runtime_error(path);
    pollfd changes{events.get(), POLLPRI, 0};
    poll(&changes, 1, 100);
  }
  round.result.kernel_killed = scratch_.oom_kills(scratch_.path()) > round.oom_kills;
}

// One problem of a kind in a round, whatever the number of records or processes.
void Arena::add_problem(Round& round, const std::string& kind, const std::string& detail) {
  for (Problem& each : round.result.problems) {
    if (each.kind != kind) continue;
    if (each.detail.find(detail) == std::string::npos) each.detail += ", " + detail;
    return;
  }
  round.result.problems.push_back({kind, detail});
}

void Arena::note_record(Round& round, const v1::Record& record) const {
  round.result.explained = round.result.explained || gives_reason(record);
  // cgroup v1 counts a kill at the victim's group only, which may be removed by now.
  const auto& event = record.oom_kill().event();
  const bool of_tenant = event.cgroup_id() == round.cgroup_id || event.path() == round.home;
  if (record.has_oom_kill() && of_tenant) round.result.kernel_killed = true;
  if (record.decision().action() != v1::Decision::KILL || !record.has_outcome()) return;
  const auto& outcome = record.outcome();
  const auto& victim = outcome.victim();
  round.kills.push_back(
      fmt::format("{} ({}, {} processes, used {} KiB, freed {} KiB, began at {} us, {} candidates)",
                  victim.name(), v1::KillProgress::State_Name(outcome.state()), outcome.processes(),
                  outcome.usage_before_bytes() >> 10, outcome.freed_bytes() >> 10,
                  outcome.began_ns() / 1000 - round.began_us, record.decision().considered_size()));
  if (outcome.processes() == 0) ++round.result.empty_kills;
  if (victim.cgroup_id() == round.cgroup_id) {
    round.result.agent_killed = true;
  } else if (!homes_.contains(victim.cgroup_id())) {  // else a late record of an earlier round
    add_problem(round, "wrong-victim", victim.path());
  }
}

void Arena::read_records(Round& round, bool wait) {
  const MonotonicTime deadline = SystemClock().now() + kRecord;
  try {
    for (;;) {
      const bool waits = wait && !round.result.agent_killed;
      const auto record = agent_->wait_record([](const v1::Record&) { return true; },
                                              waits ? deadline - SystemClock().now() : Duration{});
      if (!record) return;
      note_record(round, *record);
    }
  } catch (const std::runtime_error& error) {
    add_problem(round, "unreadable", error.what());
  }
}

void Arena::await_record(Round& round) {
  RoundResult& result = round.result;
  const bool due = round.dead && round.plan.offence != Offence::none;
  read_records(round, due && !result.kernel_killed);
  if (result.kernel_killed || round.plan.offence == Offence::none || result.not_short) return;
  if (round.dead && !result.agent_killed) {
    add_problem(round, "unrecorded-death", round.plan.text());
  }
  if (!round.dead && !result.explained) {
    add_problem(round, "offender-alive", fmt::format("{} bytes available", available().count));
  }
}

// The tenant's supervisor at its worst: the same path, another group, an innocent process.
void Arena::replace_home(Round& round) {
  remove_what_is_left();
  const std::string directory = scratch_.directory(round.home);
  if (mkdir(directory.c_str(), 0755) != 0) throw std::runtime_error("mkdir " + directory);
  add_bystander("newcomer-died", "newcomer", scratch_.path() + "/calm");
  write_file(directory + "/cgroup.procs", std::to_string(innocents_.back().process.pid()));
}

void Arena::check_innocents(Round& round, Duration watched) {
  std::vector<pollfd> ends;
  for (const Bystander& each : innocents_) ends.push_back({each.process.pidfd(), POLLIN, 0});
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(watched).count();
  if (poll(ends.data(), ends.size(), static_cast<int>(ms)) != 0) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].revents == 0) continue;
      add_problem(round, innocents_[i].kind, innocents_[i].name);
    }
  }
  if (const auto status = agent_->process().wait_end(SystemClock().now())) {
    add_problem(round, "agent-died", fmt::format("wait status {}", *status));
  }
}

void Arena::end_tenant() {
  const std::string group = scratch_.unified_directory(tenants_);
  const UniqueFd events(open((group + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  while (populated()) {
    if (SystemClock().now() > deadline) throw std::runtime_error("cannot end " + group);
    write_file(group + "/cgroup.kill", "1");
    // cgroup.kill signals the leader's thread, so that a process with an exited leader survives it.
    end_processes(group);
    pollfd changes{events.get(), POLLPRI, 0};
    poll(&changes, 1, 20);
  }
}

void Arena::remove_what_is_left() {
  for (const auto& each : fs::directory_iterator(tmpfs_.path())) fs::remove_all(each.path());
  const int segment = shmget(kSegment, 0, 0);
  if (segment >= 0) shmctl(segment, IPC_RMID, nullptr);
  const std::string root = scratch_.directory(tenants_);
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  for (;;) {
    std::vector<std::string> groups;
    for (const auto& each : fs::recursive_directory_iterator(root)) {
      if (each.is_directory()) groups.push_back(each.path());
    }
    bool removed = true;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      removed = rmdir(group->c_str()) == 0 && removed;
    }
    if (removed) return;
    // An exiting process stays in its group for a moment, and cgroup v1 has no event for its end.
    if (SystemClock().now() > deadline) throw std::runtime_error("cannot remove groups in " + root);
    poll(nullptr, 0, 2);
  }
}

RoundResult Arena::play(const RoundPlan& plan) {
  Round round{plan, "", 0, scratch_.oom_kills(scratch_.path()), false, {}, {}, 0};
  round.began_us = to_ns(SystemClock().now()) / 1000;
  make_home(round);
  {
    Tenant tenant(plan, place_of(round));
    scratch_.write(round.home, "cgroup.procs", std::to_string(tenant.pid()));
    if (mounts().v1) {
      write_file(scratch_.unified_directory(tenants_) + "/cgroup.procs",
                 std::to_string(tenant.pid()));
    }
    if (plan.has(Trick::stray_thread)) move_stray_thread(round.home);
    if (tenant.begin()) {
      const Bytes amount = kLimit - kLeft - scratch_.usage(scratch_.path());
      tenant.offend({std::max<std::int64_t>(amount.count, 0)});
    }
    if (plan.offence != Offence::none) await_end(round, tenant);
    if (plan.has(Trick::stray_thread)) {
      if (!innocents_.front().process.ended()) move_stray_thread(scratch_.path() + "/keep");
    }
    round.dead = !populated();
    const bool replace = plan.has(Trick::recreate) && !plan.leaves_memory() && round.dead;
    if (replace) replace_home(round);
    await_record(round);
    check_innocents(round, plan.leaves_memory() ? kAfterwards : Duration{});
    if (replace) innocents_.pop_back();
    end_tenant();
  }
  read_records(round, false);
  remove_what_is_left();
  if (!round.result.problems.empty() && !round.kills.empty()) {
    std::string& detail = round.result.problems.front().detail;
    for (const std::string& each : round.kills) detail += "; record: " + each;
  }
  return round.result;
}

}  // namespace forestall::test
