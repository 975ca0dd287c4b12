/** The path of the program that was installed for this machine. Throws if there is none for it. */
export declare function program(): string;
