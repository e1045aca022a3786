// Browser types that playwright-core's types mention. This program has no 'dom' library: only
// src/sandbox/page runs in a browser, and it has a tsconfig of its own.
interface Node {}
interface HTMLElement extends Node {}
interface SVGElement extends Node {}
interface HTMLElementTagNameMap {}
