// SPDX-License-Identifier: Apache-2.0
#include "cli/managed_status.h"

#include <gtest/gtest.h>

namespace forestall::cli {
namespace {

v1::ManagedOomStatus managed_status() {
  v1::ManagedOomStatus status;
  status.set_source("dbus");
  status.set_read_ago_ns(1'500'000'000);
  status.set_swap_used_limit(9000);
  status.set_pressure_limit(6005);
  status.set_pressure_duration_us(20'000'000);
  status.add_swap("/");
  auto& rule = *status.add_pressure();
  rule.set_cgroup("/a.slice");
  rule.set_limit(5000);
  rule.set_duration_us(1'500'000);
  return status;
}

TEST(ManagedStatusText, ShowsWhatWasReadAndDashesForWhatWasNot) {
  v1::ManagedOomStatus status = managed_status();
  status.set_readings_ago_ns(400'000'000);
  status.set_memory_total(4LL << 30);
  status.set_memory_used(1LL << 30);
  status.set_swap_total(2LL << 30);
  status.set_swap_used(0);
  auto& reading = *status.add_readings();
  reading.set_cgroup("/a.slice");
  reading.set_avg10(12.5F);
  reading.set_avg60(3);
  reading.set_avg300(0);
  reading.set_total_us(2'500'000);
  reading.set_usage(100LL << 20);
  reading.set_pgscan(7);
  EXPECT_EQ(
      managed_status_text(status),
      "managedOOM: dbus, read 1.5 s ago\n"
      "swap used limit: 90.00 %; memory pressure limit: 60.05 % for 20 s\n"
      "readings: 0.4 s ago\n"
      "memory: 1.0 GiB of 4.0 GiB used\n"
      "swap: 0 B of 2.0 GiB used\n"
      "\n"
      "Watched for swap\n"
      "  cgroup  swap  usage\n"
      "  /       -     -\n"
      "\n"
      "Watched for memory pressure (full, in percent)\n"
      "  cgroup    limit    duration  avg10  avg60  avg300  total  usage      pgscan  last pgscan\n"
      "  /a.slice  50.00 %  1.5 s     12.50  3.00   0.00    2.5 s  100.0 MiB  7       -\n");
}

TEST(ManagedStatusText, NamesWhatIsNotInForce) {
  v1::ManagedOomStatus status;
  status.set_source("dbus");
  status.set_problem("systemd left the bus");
  status.set_killed_signal_problem("another program has the name");
  EXPECT_EQ(managed_status_text(status),
            "managedOOM: dbus, not read yet\n"
            "NOT CURRENT: systemd left the bus\n"
            "NO SIGNAL after a kill: another program has the name\n"
            "swap used limit: 0.00 %; memory pressure limit: 0.00 % for 0 s\n"
            "readings: none yet\n"
            "\nNo cgroup is watched for swap\n"
            "\nNo cgroup is watched for memory pressure\n");
}

}  // namespace
}  // namespace forestall::cli
