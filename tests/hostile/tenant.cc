// SPDX-License-Identifier: Apache-2.0
#include "hostile/tenant.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stdexcept>

#include "hostile/tenant_offence.h"
#include "hostile/tenant_tricks.h"

namespace forestall::test {
namespace {

// The rest of a tenant's first process.
[[noreturn]] void run_tenant(const RoundPlan& plan, const TenantPlace& place, int lives,
                             int commands, int ready) {
  signal(SIGCHLD, SIG_DFL);
  char go = 0;
  if (read(commands, &go, 1) != 1) _exit(0);
  if (setgroups(0, nullptr) != 0 || setgid(kTenantUser) != 0 || setuid(kTenantUser) != 0) _exit(4);
  Dice dice(plan.seed);
  const TrickPlayer player(place, lives, dice);
  for (const Trick each : plan.tricks) player.play(each);
  if (write(ready, "r", 1) != 1) _exit(5);
  std::int64_t amount = 0;
  if (read(commands, &amount, sizeof(amount)) != sizeof(amount)) _exit(0);
  if (plan.has(Trick::zombie_leader)) offend_without_leader(plan.offence, amount, place, lives);
  commit_offence(plan.offence, amount, place);
  if (plan.has(Trick::stopped)) raise(SIGSTOP);
  wait_for_end(lives);
}

}  // namespace

Tenant::Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  read_end = UniqueFd(ends[0]);
  write_end = UniqueFd(ends[1]);
}

Tenant::Tenant(const RoundPlan& plan, const TenantPlace& place)
    : parent_([&] {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        signal(SIGCHLD, SIG_IGN);  // the kernel reaps what the tenant leaves
        const pid_t pid = fork();
        // Only the test holds this end, so that its death ends the tenant too.
        lives_.write_end.reset();
        commands_.write_end.reset();
        if (pid == 0) {
          run_tenant(plan, place, lives_.read_end.get(), commands_.read_end.get(),
                     ready_.write_end.get());
        }
        if (write(pids_.write_end.get(), &pid, sizeof(pid)) != sizeof(pid)) return 1;
        wait_for_end(lives_.read_end.get());
      }) {
  if (read(pids_.read_end.get(), &pid_, sizeof(pid_)) != sizeof(pid_) || pid_ <= 0) {
    throw std::runtime_error("the tenant did not start");
  }
  pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

bool Tenant::begin() {
  if (write(commands_.write_end.get(), "g", 1) != 1) return false;
  pollfd waits[] = {{ready_.read_end.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  poll(waits, 2, static_cast<int>(ms));
  return (waits[0].revents & POLLIN) != 0;
}

void Tenant::offend(Bytes amount) const {
  // The test holds the read end as well: the command to a dead tenant stays in the pipe.
  const std::int64_t count = amount.count;
  if (write(commands_.write_end.get(), &count, sizeof(count)) != sizeof(count)) {
    throw std::runtime_error("the pipe to the tenant is full");
  }
}

}  // namespace forestall::test
