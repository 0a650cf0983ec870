#!/usr/bin/env bash
# MPS on h100x2-1 for plan DIGEST: one control program a device, each with its own pipe and log.
#   start | stop | status       of all devices of this node
#   env STAGE INDEX             what that process has to export before it touches CUDA
# A client finds its device through its pipe; do not set CUDA_VISIBLE_DEVICES for it.
set -euo pipefail

root="${EBRL_MPS_ROOT:-/tmp/ebrl-mps-$(id -u)}/h100x2-1"
devices=(1)
patience_s="${EBRL_MPS_PATIENCE_S:-10}" # for a control program to come up or to quit

fail() {
    echo "mps h100x2-1: $*" >&2
    exit 1
}

# control DEVICE COMMAND…: what the control program says; its exit status says nothing.
control() {
    local device=$1
    shift
    echo "$*" | CUDA_MPS_PIPE_DIRECTORY="$root/$device/pipe" \
        CUDA_MPS_LOG_DIRECTORY="$root/$device/log" timeout 10 nvidia-cuda-mps-control 2>&1 || true
}

# A control program that runs answers this question with a number; anything else is its excuse.
running() {
    [[ $(control "$1" get_default_active_thread_percentage) =~ ^[0-9]+(\.[0-9]+)?$ ]]
}

start() {
    local device=$1 answer
    running "$device" && return
    mkdir -p "$root/$device/pipe" "$root/$device/log"
    chmod 700 "$root" "$root/$device"
    answer=$(CUDA_VISIBLE_DEVICES="$device" CUDA_MPS_PIPE_DIRECTORY="$root/$device/pipe" \
        CUDA_MPS_LOG_DIRECTORY="$root/$device/log" nvidia-cuda-mps-control -d 2>&1) || true
    local end=$((SECONDS + patience_s))
    while ((SECONDS <= end)); do
        running "$device" && return
        sleep 0.1
    done
    fail "device $device: the control program does not answer: ${answer:-no message}; see $root/$device/log"
}

stop() {
    local device=$1 answer
    running "$device" || return 0
    answer=$(control "$device" quit -t 5)
    local end=$((SECONDS + patience_s))
    while ((SECONDS <= end)); do
        running "$device" || return 0
        sleep 0.1
    done
    fail "device $device: the control program does not quit: ${answer:-no message}"
}

exports() {
    local device=$1 percent=$2
    printf 'export CUDA_MPS_PIPE_DIRECTORY=%q\n' "$root/$device/pipe"
    printf 'export CUDA_MPS_LOG_DIRECTORY=%q\n' "$root/$device/log"
    printf 'export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%q\n' "$percent"
    printf 'unset CUDA_VISIBLE_DEVICES\n'
}

case "${1:-}" in
start)
    for device in "${devices[@]}"; do start "$device"; done
    ;;
stop)
    for device in "${devices[@]}"; do stop "$device"; done
    ;;
status)
    for device in "${devices[@]}"; do
        running "$device" || fail "device $device: no control program"
        echo "device $device: servers $(control "$device" get_server_list | tr '\n' ' ')"
    done
    ;;
env)
    case "${2:-} ${3:-}" in
    'generate 1') exports 1 49 ;; # 64 SMs
    'train 1') exports 1 52 ;; # 68 SMs
    *) fail "no process '${2:-} ${3:-}' of the plan shares a device here" ;;
    esac
    ;;
*)
    echo "usage: $0 start | stop | status | env STAGE INDEX" >&2
    exit 2
    ;;
esac
